// Command imports reads docs/imports.txt, which defines the allowed imports between packages. It
// writes the linter's rules into .golangci.yaml and the table of layers into docs/architecture.md.
// It fails if the list does not match the packages below internal.
package main

import (
	"bytes"
	"errors"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"strings"
)

//go:generate go run . -root ../..

func main() {
	root := flag.String("root", ".", "folder of the repository")
	flag.Parse()
	if err := run(*root); err != nil {
		fmt.Fprintln(os.Stderr, "imports:", err)
		os.Exit(1)
	}
}

func run(root string) error {
	text, err := os.ReadFile(filepath.Join(root, "docs", "imports.txt"))
	if err != nil {
		return err
	}
	t, err := parse(string(text))
	if err != nil {
		return fmt.Errorf("docs/imports.txt: %w", err)
	}
	folders, err := packages(filepath.Join(root, "internal"))
	if err != nil {
		return err
	}
	if err := t.check(folders); err != nil {
		return fmt.Errorf("docs/imports.txt: %w", err)
	}
	return errors.Join(
		replace(filepath.Join(root, ".golangci.yaml"), "# imports: begin", "# imports: end", t.rules()),
		replace(filepath.Join(root, "docs", "architecture.md"), "<!-- imports: begin -->", "<!-- imports: end -->", t.markdown()),
	)
}

// packages returns the folders below internal that contain Go files, relative to internal.
func packages(internal string) ([]string, error) {
	var found []string
	err := filepath.WalkDir(internal, func(path string, d os.DirEntry, err error) error {
		if err != nil || d.IsDir() || filepath.Ext(path) != ".go" {
			return err
		}
		name, err := filepath.Rel(internal, filepath.Dir(path))
		if name = filepath.ToSlash(name); len(found) == 0 || found[len(found)-1] != name {
			found = append(found, name)
		}
		return err
	})
	return found, err
}

// replace writes text into a file in place of the lines between the line with begin and the line with end.
func replace(file, begin, end, text string) error {
	old, err := os.ReadFile(file)
	if err != nil {
		return err
	}
	head, rest, found := strings.Cut(string(old), begin)
	_, tail, closed := strings.Cut(rest, end)
	if !found || !closed {
		return fmt.Errorf("%s does not have a line %q and, after it, a line %q", file, begin, end)
	}
	first, _, _ := strings.Cut(rest, "\n")
	indent := head[strings.LastIndexByte(head, '\n')+1:]
	changed := []byte(head + begin + first + "\n" + text + indent + end + tail)
	if bytes.Equal(old, changed) {
		return nil
	}
	return os.WriteFile(file, changed, 0o644) //nolint:gosec // a file of the repository, readable like the others
}
