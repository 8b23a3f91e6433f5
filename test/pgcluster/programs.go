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

// errNoServer says that no folder with the server's programs was found.
var errNoServer = errors.New("no PostgreSQL server is installed")

// installer brings in Debian packages where it may; its path is from the root
// of the checkout, where pgcluster is run.
const installer = ".ci/tools"

// locate finds the folder of the server's programs, and lets the installer try
// when there is none.
func locate(ctx context.Context, stderr io.Writer) (string, error) {
	s := machine()
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

// search says where the server's programs may be.
type search struct {
	globs     []string                                  // folders with a version in their name
	lookPath  func(program string) (string, error)      // as exec.LookPath
	configDir func(ctx context.Context) (string, error) // as pg_config --bindir
}

// machine is where Debian, Homebrew and a build by hand put them.
func machine() search {
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

// find returns the first folder that has the server's programs: the newest
// version of each known layout in turn, then PATH, then what pg_config says.
// The error is errNoServer when there is none.
func (s search) find(ctx context.Context) (string, error) {
	for _, glob := range s.globs {
		dirs, err := filepath.Glob(glob)
		if err != nil {
			return "", fmt.Errorf("looking for PostgreSQL in %s: %w", glob, err)
		}
		slices.SortFunc(dirs, func(a, b string) int { return slices.Compare(version(b), version(a)) })
		if i := slices.IndexFunc(dirs, complete); i >= 0 {
			return dirs[i], nil
		}
	}
	if initdb, err := s.lookPath("initdb"); err == nil {
		// The programs find their libraries beside the real file, not the link.
		if file, err := filepath.EvalSymlinks(initdb); err == nil && complete(filepath.Dir(file)) {
			return filepath.Dir(file), nil
		}
	}
	if dir, err := s.configDir(ctx); err == nil && complete(dir) {
		return dir, nil
	}
	return "", errNoServer
}

// number matches the parts of a version.
var number = regexp.MustCompile(`\d+`)

// version reads the version from the folder above bin: "15", "9.6" or
// "postgresql@17".
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

// complete reports whether dir has the two programs a cluster needs. A machine
// with the client alone has pg_config and a bin folder too.
func complete(dir string) bool {
	for _, program := range []string{"initdb", "postgres"} {
		info, err := os.Stat(filepath.Join(dir, program))
		if err != nil || !info.Mode().IsRegular() || info.Mode().Perm()&0o111 == 0 {
			return false
		}
	}
	return true
}
