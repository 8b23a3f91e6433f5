package main

import (
	"context"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"testing"
)

// layout creates empty files in a new folder and returns the folder. If a name ends with "!", the file is
// executable, and its name does not contain the "!".
func layout(t *testing.T, files ...string) string {
	t.Helper()
	root := t.TempDir()
	for _, file := range files {
		mode := os.FileMode(0o600)
		if n := len(file) - 1; file[n] == '!' {
			file, mode = file[:n], 0o700
		}
		path := filepath.Join(root, file)
		if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, nil, mode); err != nil {
			t.Fatal(err)
		}
	}
	return root
}

func TestFind(t *testing.T) {
	t.Parallel()
	tests := []struct {
		name   string
		files  []string
		path   string // the path of initdb in PATH, or "" for none
		config string // the output of pg_config --bindir, or "" if there is no pg_config
		want   string // "" for errNoServer
	}{
		{
			name:  "versions are compared as numbers",
			files: []string{"9.6/bin/initdb!", "9.6/bin/postgres!", "15/bin/initdb!", "15/bin/postgres!", "9/bin/initdb!", "9/bin/postgres!"},
			want:  "15/bin",
		},
		{
			name:  "Homebrew's folders",
			files: []string{"postgresql@9/bin/initdb!", "postgresql@9/bin/postgres!", "postgresql@17/bin/initdb!", "postgresql@17/bin/postgres!"},
			want:  "postgresql@17/bin",
		},
		{
			name:  "a newer client without a server is ignored",
			files: []string{"16/bin/initdb!", "15/bin/initdb!", "15/bin/postgres!"},
			want:  "15/bin",
		},
		{
			name:  "a program that is not executable is ignored",
			files: []string{"16/bin/initdb!", "16/bin/postgres", "15/bin/initdb!", "15/bin/postgres!"},
			want:  "15/bin",
		},
		{
			name:  "a known layout has priority over PATH",
			files: []string{"15/bin/initdb!", "15/bin/postgres!", "own/initdb!", "own/postgres!"},
			path:  "own/initdb",
			want:  "15/bin",
		},
		{
			name:   "PATH has priority over pg_config",
			files:  []string{"own/initdb!", "own/postgres!", "other/initdb!", "other/postgres!"},
			path:   "own/initdb",
			config: "other",
			want:   "own",
		},
		{
			name:   "only pg_config",
			files:  []string{"other/initdb!", "other/postgres!"},
			config: "other",
			want:   "other",
		},
		{
			name:   "pg_config without server programs is ignored",
			files:  []string{"other/pg_config!"},
			config: "other",
		},
		{name: "no files"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			root := layout(t, tt.files...)
			s := search{
				globs: []string{filepath.Join(root, "*", "bin")},
				lookPath: func(string) (string, error) {
					if tt.path == "" {
						return "", exec.ErrNotFound
					}
					return filepath.Join(root, tt.path), nil
				},
				configDir: func(context.Context) (string, error) {
					if tt.config == "" {
						return "", exec.ErrNotFound
					}
					return filepath.Join(root, tt.config), nil
				},
			}
			got, err := s.find(t.Context())
			if tt.want == "" {
				if !errors.Is(err, errNoServer) {
					t.Fatalf("find = %q, %v; want errNoServer", got, err)
				}
				return
			}
			if err != nil {
				t.Fatal(err)
			}
			if want := filepath.Join(root, tt.want); got != want {
				t.Errorf("find = %s, want %s", got, want)
			}
		})
	}
}

func TestFindFollowsLinkOnPath(t *testing.T) {
	t.Parallel()
	root := layout(t, "real/initdb!", "real/postgres!", "links/unrelated")
	link := filepath.Join(root, "links", "initdb")
	if err := os.Symlink(filepath.Join(root, "real", "initdb"), link); err != nil {
		t.Fatal(err)
	}
	s := search{
		lookPath:  func(string) (string, error) { return link, nil },
		configDir: func(context.Context) (string, error) { return "", exec.ErrNotFound },
	}
	got, err := s.find(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	want, err := filepath.EvalSymlinks(filepath.Join(root, "real"))
	if err != nil {
		t.Fatal(err)
	}
	if got != want {
		t.Errorf("find = %s, want %s", got, want)
	}
}
