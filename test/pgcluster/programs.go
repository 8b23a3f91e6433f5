package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
)

// errNoServer means that no folder with the server's programs was found.
var errNoServer = errors.New("no PostgreSQL server is installed")

// installer is a script that installs Debian packages if it runs as root. The path is relative to the root
// of the repository, in which pgcluster is run.
const installer = ".ci/tools"

// locate finds the folder of the server's programs. If there is no such folder and this process runs as
// root, locate runs the installer and searches again.
func locate(ctx context.Context, stderr io.Writer) (string, error) {
	s := defaultSearch()
	bin, err := s.find(ctx)
	if !errors.Is(err, errNoServer) {
		return bin, err
	}
	if _, err := os.Stat(installer); err != nil || os.Geteuid() != 0 {
		return "", errNoServer
	}
	cmd := exec.CommandContext(ctx, installer, "postgresql")
	cmd.Stdout, cmd.Stderr = stderr, stderr
	if err := cmd.Run(); err != nil {
		return "", fmt.Errorf("%w, and installing it failed: %w", errNoServer, err)
	}
	return s.find(ctx)
}

// search lists the places where the server's programs may be.
type search struct {
	globs     []string                                  // patterns of folders whose path contains a version
	lookPath  func(program string) (string, error)      // like exec.LookPath
	configDir func(ctx context.Context) (string, error) // like pg_config --bindir
}

// defaultSearch returns a search of the folders of Debian and Homebrew, of PATH, and of the folder
// that pg_config names.
func defaultSearch() search {
	return search{
		globs: []string{
			"/usr/lib/postgresql/*/bin",
			"/opt/homebrew/opt/postgresql@*/bin",
			"/usr/local/opt/postgresql@*/bin",
			"/home/linuxbrew/.linuxbrew/opt/postgresql@*/bin",
		},
		lookPath: exec.LookPath,
		configDir: func(ctx context.Context) (string, error) {
			out, err := exec.CommandContext(ctx, "pg_config", "--bindir").Output()
			return strings.TrimSpace(string(out)), err
		},
	}
}

// find returns the first folder that has the server's programs: the newest version of each known
// layout in turn, then PATH, then the folder of pg_config. If no folder has the programs, the error
// is errNoServer.
func (s search) find(ctx context.Context) (string, error) {
	for _, glob := range s.globs {
		dirs, err := filepath.Glob(glob)
		if err != nil {
			return "", fmt.Errorf("searching for PostgreSQL in %s: %w", glob, err)
		}
		slices.SortFunc(dirs, func(a, b string) int { return slices.Compare(version(b), version(a)) })
		if i := slices.IndexFunc(dirs, complete); i >= 0 {
			return dirs[i], nil
		}
	}
	if initdb, err := s.lookPath("initdb"); err == nil {
		// The initdb in PATH may be a link. The program postgres is in the folder of the real file.
		if file, err := filepath.EvalSymlinks(initdb); err == nil && complete(filepath.Dir(file)) {
			return filepath.Dir(file), nil
		}
	}
	if dir, err := s.configDir(ctx); err == nil && complete(dir) {
		return dir, nil
	}
	return "", errNoServer
}

// number matches a number in a version.
var number = regexp.MustCompile(`\d+`)

// version parses the version from the folder above bin: "15", "9.6" or "postgresql@17".
func version(bin string) []int {
	var v []int
	for _, digits := range number.FindAllString(filepath.Base(filepath.Dir(bin)), -1) {
		n, err := strconv.Atoi(digits)
		if err != nil {
			break
		}
		v = append(v, n)
	}
	return v
}

// complete reports whether dir has the two programs that a cluster needs. A machine that has only
// the client programs may also have pg_config and a bin folder.
func complete(dir string) bool {
	for _, program := range []string{"initdb", "postgres"} {
		info, err := os.Stat(filepath.Join(dir, program))
		if err != nil || !info.Mode().IsRegular() || info.Mode().Perm()&0o111 == 0 {
			return false
		}
	}
	return true
}
