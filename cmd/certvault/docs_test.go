package main

import (
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/alecthomas/kong"
)

// fragments matches the code blocks and the inline code of Markdown.
var fragments = regexp.MustCompile("(?s)```[a-z]*\n(.*?)```|`([^`\n]+)`")

// continued matches a backslash at the end of a line, and the spaces at the start of the next line.
var continued = regexp.MustCompile(`\\\n\s*`)

// TestDocumentedFlags checks that the commands in the documentation use only flags that exist.
func TestDocumentedFlags(t *testing.T) {
	t.Parallel()
	parser, err := kong.New(&commands{}, kong.Name("certvault"))
	if err != nil {
		t.Fatal(err)
	}
	found := 0
	check := func(file, line string) {
		words := strings.Fields(strings.NewReplacer("[", " ", "]", " ", "(", " ", ")", " ").Replace(line))
		for i, word := range words {
			if word != "certvault" && !strings.HasSuffix(word, "/certvault") {
				continue
			}
			node, rest := parser.Model.Node, words[i+1:]
			for len(rest) > 0 {
				j := slices.IndexFunc(node.Children, func(n *kong.Node) bool { return n.Name == rest[0] })
				if j < 0 {
					break
				}
				node, rest = node.Children[j], rest[1:]
			}
			if node == parser.Model.Node || len(node.Children) > 0 {
				continue // the words name a group of commands, or only the program
			}
			found++
			flags := map[string]bool{}
			for _, group := range node.AllFlags(false) {
				for _, f := range group {
					flags["--"+f.Name], flags["--no-"+f.Name] = true, true
				}
			}
			for _, word := range rest {
				if word == "&&" || word == "||" || word == ";" {
					break
				}
				name, _, _ := strings.Cut(strings.TrimRight(word, ",;.|"), "=")
				if strings.HasPrefix(name, "--") && !flags[name] {
					t.Errorf("%s: %s has no flag %s; it has %q", file, node.FullPath(), name, slices.Sorted(maps.Keys(flags)))
				}
			}
		}
	}
	root := filepath.Join("..", "..")
	err = filepath.WalkDir(filepath.Join(root, "docs"), func(path string, e fs.DirEntry, err error) error {
		if err != nil || e.IsDir() || filepath.Ext(path) != ".md" || strings.Contains(path, string(filepath.Separator)+"adr"+string(filepath.Separator)) {
			return err
		}
		text, err := os.ReadFile(path)
		if err != nil {
			return err
		}
		for _, m := range fragments.FindAllStringSubmatch(string(text), -1) {
			for line := range strings.Lines(continued.ReplaceAllString(m[1]+m[2], " ")) {
				// Three spaces separate a command from an explanation.
				command, _, _ := strings.Cut(line, "   ")
				command, _, _ = strings.Cut(command, " | ")
				check(path, command)
			}
		}
		return nil
	})
	if err != nil || found == 0 {
		t.Errorf("the documentation has %d commands, error %v, want at least 1 command and no error", found, err)
	}
}
