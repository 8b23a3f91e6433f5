package main

import (
	"io"
	"slices"
	"strings"

	"github.com/alecthomas/kong"
)

type completionCommand struct {
	Shell string `arg:"" enum:"bash,zsh,fish" help:"bash, zsh or fish."`
}

// completions contains a script for each shell. The script runs certvault complete, which prints the words
// that can be typed next. If there are no such words, the shell completes file names.
var completions = map[string]string{
	"bash": `_certvault() {
	local IFS=$'\n'
	COMPREPLY=($(certvault complete -- "${COMP_WORDS[@]:1:COMP_CWORD}" 2>/dev/null))
}
complete -o default -o bashdefault -F _certvault certvault
`,
	"zsh": `#compdef certvault
local -a list
list=("${(@f)$(certvault complete -- "${(@)words[2,CURRENT]}" 2>/dev/null)}")
if [[ -n ${list[1]} ]]; then compadd -a list; else _files; fi
`,
	"fish": `complete -c certvault -f -a '(certvault complete -- (commandline -opc)[2..-1] (commandline -ct) 2>/dev/null; or __fish_complete_path (commandline -ct))'
`,
}

// Run prints a script that completes the command line in a shell.
func (s *completionCommand) Run(c *console) error {
	_, err := io.WriteString(c.stdout, completions[s.Shell])
	return err
}

type completeCommand struct {
	Words []string `arg:"" optional:"" passthrough:""`
}

// Run prints the possible completions of the last of Words, one per line. The last word is the word at the
// cursor, which may be empty. The exit code is 1 if there are no completions.
func (w *completeCommand) Run(c *console, parsed *kong.Context) error {
	words := w.Words
	if len(words) > 0 && words[0] == "--" {
		words = words[1:]
	}
	if len(words) == 0 {
		words = []string{""}
	}
	list := complete(parsed.Model.Node, words[:len(words)-1], words[len(words)-1])
	if len(list) == 0 {
		return &exitError{code: exitRefused}
	}
	for _, word := range list {
		printf(c.stdout, "%s\n", word)
	}
	return nil
}

// complete returns the words that begin with prefix and are possible after the words before the cursor.
func complete(n *kong.Node, before []string, prefix string) []string {
	var expects *kong.Flag // the flag whose value is at the cursor
	for _, word := range before {
		if expects != nil {
			expects = nil
			continue
		}
		if strings.HasPrefix(word, "-") {
			if f := findFlag(n, word); f != nil && !f.IsBool() && !strings.Contains(word, "=") {
				expects = f
			}
			continue
		}
		for _, child := range n.Children {
			if child.Name == word {
				n = child
				break
			}
		}
	}
	var list []string
	switch {
	case expects != nil:
		list = slices.Clone(expects.EnumSlice())
	case strings.HasPrefix(prefix, "-"):
		for _, flags := range n.AllFlags(true) {
			for _, f := range flags {
				list = append(list, "--"+f.Name)
			}
		}
	default:
		for _, child := range n.Children {
			if !child.Hidden {
				list = append(list, child.Name)
			}
		}
	}
	return slices.DeleteFunc(list, func(word string) bool { return word == "" || !strings.HasPrefix(word, prefix) })
}

// findFlag returns the flag of a command that a word such as --data, --data=D or -c sets, or nil.
func findFlag(n *kong.Node, word string) *kong.Flag {
	name, _, _ := strings.Cut(word, "=")
	for _, flags := range n.AllFlags(false) {
		for _, f := range flags {
			if name == "--"+f.Name || f.Short != 0 && name == "-"+string(f.Short) {
				return f
			}
		}
	}
	return nil
}
