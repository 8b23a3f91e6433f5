// Command package builds the packages of certvault from its Linux binary: deb, rpm, tar.gz, an OCI image
// and a software bill of materials. The packages depend only on the flags, the binary, the files of this
// repository and, for the image, the folder of -fonts. So anyone can build the packages again and compare
// them.
//
// The command runs the binary to get the manual page, the completions and the compiled PDF renderer. So the
// packages are for the architecture of the machine that builds them.
package main

import (
	"bytes"
	"compress/gzip"
	"crypto/sha256"
	"errors"
	"flag"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path"
	"path/filepath"
	"slices"
	"strings"
	"time"
)

// build contains what all packages have in common.
type build struct {
	root, out     string // the folders of the repository and of the packages
	version, arch string // arch is the architecture, as Go names it
	modified      time.Time
	binary        []byte
	// fonts is a folder with fonts for the image, or "".
	fonts string
}

// entry is a file or a folder of a package. content is nil for a folder.
type entry struct {
	path    string // absolute
	mode    fs.FileMode
	content []byte
	// config is true for a configuration file. An upgrade does not replace a file that the operator changed.
	config bool
	// owner is the id of the user and the group. Only entries of the image have an owner other than root.
	owner int
}

func main() {
	b := &build{}
	binary := flag.String("binary", "", "the binary for Linux")
	epoch := flag.Int64("epoch", 0, "time of all files, in seconds since 1970")
	flag.StringVar(&b.root, "root", "../..", "folder of the repository")
	flag.StringVar(&b.out, "out", "", "folder for the packages, which is created")
	flag.StringVar(&b.version, "version", "", "version of the packages")
	flag.StringVar(&b.arch, "arch", "amd64", "architecture of the binary, as Go names it")
	flag.StringVar(&b.fonts, "fonts", "", "folder with fonts for the image")
	flag.Parse()
	b.modified = time.Unix(*epoch, 0).UTC()
	if err := b.run(*binary); err != nil {
		fmt.Fprintln(os.Stderr, "package:", err)
		os.Exit(1)
	}
}

func (b *build) run(binary string) (err error) {
	if b.binary, err = os.ReadFile(binary); err != nil {
		return err
	}
	if err := os.MkdirAll(b.out, 0o755); err != nil { //nolint:gosec // the packages are public
		return err
	}
	bom, err := b.bom(binary)
	if err != nil {
		return fmt.Errorf("bill of materials: %w", err)
	}
	files, err := b.files(binary, bom)
	if err != nil {
		return err
	}
	name := "certvault-" + b.version
	written := map[string]func() ([]byte, error){
		name + ".cdx.json":                               func() ([]byte, error) { return bom, nil },
		name + "-linux-" + b.arch + ".tar.gz":            func() ([]byte, error) { return b.archive(name, files) },
		"certvault_" + b.version + "_" + b.arch + ".deb": func() ([]byte, error) { return b.system("deb", files) },
		name + "-1." + rpmArch(b.arch) + ".rpm":          func() ([]byte, error) { return b.system("rpm", files) },
		name + "-image-" + b.arch + ".tar":               func() ([]byte, error) { return b.image(files) },
	}
	var sums strings.Builder
	for _, name := range sortedKeys(written) {
		content, err := written[name]()
		if err != nil {
			return fmt.Errorf("%s: %w", name, err)
		}
		if err := os.WriteFile(filepath.Join(b.out, name), content, 0o644); err != nil { //nolint:gosec // public
			return err
		}
		fmt.Fprintf(&sums, "%x  %s\n", sha256.Sum256(content), name)
	}
	return os.WriteFile(filepath.Join(b.out, "SHA256SUMS"), []byte(sums.String()), 0o644) //nolint:gosec // public
}

func sortedKeys[V any](m map[string]V) []string {
	var keys []string
	for key := range m {
		keys = append(keys, key)
	}
	slices.Sort(keys)
	return keys
}

// rpmArch returns the name of an architecture in rpm.
func rpmArch(arch string) string {
	switch arch {
	case "amd64":
		return "x86_64"
	case "arm64":
		return "aarch64"
	}
	return arch
}

const (
	rendererDir = "/usr/lib/certvault/renderer"
	docDir      = "/usr/share/doc/certvault"
	unitDir     = "/usr/lib/systemd/system"
	zshFile     = "/usr/share/zsh/vendor-completions/_certvault"
)

// files returns the files of the packages, sorted by path.
func (b *build) files(binary string, bom []byte) ([]entry, error) {
	list := []entry{
		{path: "/usr/bin/certvault", mode: 0o755, content: b.binary},
		{path: docDir + "/certvault.cdx.json", mode: 0o644, content: bom},
	}
	for target, source := range map[string]string{
		unitDir + "/certvault.service":  "deploy/systemd/certvault.service",
		unitDir + "/certvault.socket":   "deploy/systemd/certvault.socket",
		"/etc/certvault/certvault.toml": "deploy/certvault.toml",
		docDir + "/copyright":           "LICENSE",
		docDir + "/NOTICE":              "NOTICE",
		docDir + "/CHANGELOG.md":        "CHANGELOG.md",
		docDir + "/operations.md":       "docs/operations.md",
	} {
		content, err := os.ReadFile(filepath.Join(b.root, source))
		if err != nil {
			return nil, err
		}
		list = append(list, entry{path: target, mode: 0o644, content: content, config: strings.HasPrefix(target, "/etc/")})
	}
	for target, args := range map[string][]string{
		"/usr/share/man/man1/certvault.1.gz":               {"man"},
		"/usr/share/bash-completion/completions/certvault": {"completion", "bash"},
		zshFile: {"completion", "zsh"},
		"/usr/share/fish/vendor_completions.d/certvault.fish": {"completion", "fish"},
	} {
		content, err := output(binary, args...)
		if err != nil {
			return nil, err
		}
		if strings.HasSuffix(target, ".gz") {
			if content, err = compress(content); err != nil {
				return nil, err
			}
		}
		list = append(list, entry{path: target, mode: 0o644, content: content})
	}
	renderer, err := b.renderer(binary)
	if err != nil {
		return nil, err
	}
	list = append(list, renderer...)
	slices.SortFunc(list, func(x, y entry) int { return strings.Compare(x.path, y.path) })
	return list, nil
}

// renderer returns the files of the PDF renderer, which the binary compiles.
func (b *build) renderer(binary string) ([]entry, error) {
	dir, err := os.MkdirTemp("", "certvault-renderer-")
	if err != nil {
		return nil, err
	}
	defer func() { _ = os.RemoveAll(dir) }()
	if _, err := output(binary, "warm", dir); err != nil {
		return nil, err
	}
	return tree(dir, rendererDir)
}

// tree returns the files in dir and in its subfolders. In the paths of the files, target replaces dir.
func tree(dir, target string) ([]entry, error) {
	var list []entry
	err := filepath.WalkDir(dir, func(name string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		content, err := os.ReadFile(name) // for a symbolic link, the content of its target
		if err != nil {
			return err
		}
		rel, err := filepath.Rel(dir, name)
		if err != nil {
			return err
		}
		list = append(list, entry{path: path.Join(target, filepath.ToSlash(rel)), mode: 0o644, content: content})
		return nil
	})
	return list, err
}

var errNoOutput = errors.New("the command printed nothing")

// output runs the binary without the environment of the caller, and returns the standard output.
func output(binary string, args ...string) ([]byte, error) {
	cmd := exec.Command(binary, args...) //nolint:gosec,noctx // the binary that is packaged
	cmd.Env = []string{"HOME=/nonexistent", "TMPDIR=" + os.TempDir()}
	cmd.Stderr = os.Stderr
	out, err := cmd.Output()
	if err == nil && len(out) == 0 {
		err = errNoOutput
	}
	if err != nil {
		return nil, fmt.Errorf("certvault %s: %w", strings.Join(args, " "), err)
	}
	return out, nil
}

// compress compresses content with gzip. The header has no name and no time.
func compress(content []byte) ([]byte, error) {
	var out bytes.Buffer
	w, err := gzip.NewWriterLevel(&out, gzip.BestCompression)
	if err != nil {
		return nil, err
	}
	if _, err := w.Write(content); err != nil {
		return nil, err
	}
	if err := w.Close(); err != nil {
		return nil, err
	}
	return out.Bytes(), nil
}
