// Command gen writes the compressed fonts that the binary embeds. It finds each font of SHA256SUMS in the
// npm packages in the folder -from, checks its digest and compresses it to the folder -to. It also joins
// the licences of the packages. Its output depends only on its input.
//
// Fonts have much in common, such as tables of the same family and the text of the licence. So each font
// after the first is compressed with an earlier font of SHA256SUMS as the dictionary: the first font of its
// family, or, for the first font of a family, the font of the first line. The id of the dictionary is the
// number of its line, from 1.
package main

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/klauspost/compress/zstd"
)

func main() {
	from := flag.String("from", "web-deps/node_modules/@expo-google-fonts", "folder of the npm packages")
	to := flag.String("to", "internal/typeset/fonts", "folder of SHA256SUMS and the compressed fonts")
	flag.Parse()
	if err := run(*from, *to); err != nil {
		fmt.Fprintln(os.Stderr, "fonts:", err)
		os.Exit(1)
	}
}

func run(from, to string) error {
	sums, err := os.ReadFile(filepath.Join(to, "SHA256SUMS"))
	if err != nil {
		return err
	}
	var licences bytes.Buffer
	last := ""
	var fonts []font
	for line := range strings.Lines(string(sums)) {
		want, name, ok := strings.Cut(strings.TrimSpace(line), "  ")
		if !ok {
			return fmt.Errorf("SHA256SUMS: unexpected line %q", line)
		}
		path, err := find(from, name)
		if err != nil {
			return err
		}
		data, err := os.ReadFile(path)
		if err != nil {
			return err
		}
		if got := sha256.Sum256(data); hex.EncodeToString(got[:]) != want {
			return fmt.Errorf("%s: the SHA-256 is %x, want %s", name, got, want)
		}
		if err := write(filepath.Join(to, name+".zst"), data, dictionary(fonts, name)...); err != nil {
			return err
		}
		fonts = append(fonts, font{name, data})
		if folder := filepath.Dir(filepath.Dir(path)); folder != last {
			last = folder
			if err := licence(&licences, folder); err != nil {
				return err
			}
		}
	}
	return write(filepath.Join(to, "LICENSES.txt.zst"), licences.Bytes())
}

// font is a font of SHA256SUMS with its content.
type font struct {
	name string
	data []byte
}

// dictionary returns the option that selects the dictionary for the font name, or nil for the first font.
// fonts are the fonts before it.
func dictionary(fonts []font, name string) []zstd.EOption {
	if len(fonts) == 0 {
		return nil
	}
	family, _, _ := strings.Cut(name, "_")
	i := max(0, slices.IndexFunc(fonts, func(f font) bool { return strings.HasPrefix(f.name, family+"_") }))
	return []zstd.EOption{zstd.WithEncoderDictRaw(uint32(i+1), fonts[i].data)} //nolint:gosec // a few fonts
}

// write compresses data and writes it to a file. It uses one goroutine, so that the bytes are the same on
// every machine.
func write(path string, data []byte, options ...zstd.EOption) error {
	encoder, err := zstd.NewWriter(nil, append(options, zstd.WithEncoderLevel(zstd.SpeedBestCompression), zstd.WithEncoderConcurrency(1))...)
	if err != nil {
		return err
	}
	return os.WriteFile(path, encoder.EncodeAll(data, nil), 0o644) //nolint:gosec // a file of the build
}

var errNotOne = errors.New("the packages must have exactly one such file")

// find returns the path of a font in the packages.
func find(from, name string) (string, error) {
	paths, err := filepath.Glob(filepath.Join(from, "*", "*", name))
	if err != nil {
		return "", err
	}
	if len(paths) != 1 {
		return "", fmt.Errorf("%s: %w", name, errNotOne)
	}
	return paths[0], nil
}

// licence adds the licences of a package: of the fonts and of the package itself.
func licence(b *bytes.Buffer, folder string) error {
	fmt.Fprintf(b, "==== @expo-google-fonts/%s ====\n\n", filepath.Base(folder))
	for _, name := range []string{"LICENSE_FONT", "LICENSE"} {
		text, err := os.ReadFile(filepath.Join(folder, name))
		if err != nil {
			return err
		}
		b.Write(bytes.TrimSpace(bytes.ReplaceAll(text, []byte("\r\n"), []byte("\n"))))
		b.WriteString("\n\n")
	}
	return nil
}
