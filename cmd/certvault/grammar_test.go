package main

import (
	"maps"
	"reflect"
	"slices"
	"testing"

	"github.com/alecthomas/kong"
)

// TestGrammarOfOneCommand checks that the grammar of each command has the flags, arguments and subcommands
// that it has among all commands.
func TestGrammarOfOneCommand(t *testing.T) {
	t.Parallel()
	if _, ok := reflect.TypeAssert[*commands](grammar(nil)); !ok {
		t.Fatal("the grammar of no arguments does not have all commands")
	}
	all := nodes(t, new(commands))
	for name, want := range all {
		g := grammar([]string{name})
		_, complete := reflect.TypeAssert[*commands](g)
		if needs := slices.Contains(completeGrammar, name); complete != needs {
			t.Errorf("%s: the grammar has all commands: %t, want %t", name, complete, needs)
		}
		if got := nodes(t, g.Interface())[name]; !reflect.DeepEqual(got, want) {
			t.Errorf("%s: the grammar of the command is\n%v\nand among all commands\n%v", name, got, want)
		}
	}
	for _, args := range [][]string{{"verify", "--help"}, {"verify", "-h"}, {"serve", "--config=a.toml"}, {"serve", "-c", "a.toml"}, {"--json", "version"}, {"unknown"}} {
		if _, ok := reflect.TypeAssert[*commands](grammar(args)); !ok {
			t.Errorf("the grammar of %v does not have all commands", args)
		}
	}
}

// nodes returns a description of each top-level command: the flags, including the common flags, and the
// arguments of the command and of its subcommands.
func nodes(t *testing.T, grammar any) map[string][]string {
	t.Helper()
	parser, err := kong.New(grammar, kong.Name("certvault"), kong.DefaultEnvars("CERTVAULT"))
	if err != nil {
		t.Fatal(err)
	}
	list := map[string][]string{}
	for _, top := range parser.Model.Children {
		var describe func(n *kong.Node)
		describe = func(n *kong.Node) {
			for _, flags := range n.AllFlags(false) {
				for _, f := range flags {
					list[top.Name] = append(list[top.Name], n.Path()+" "+f.String()+" "+f.Help)
				}
			}
			for _, p := range n.Positional {
				list[top.Name] = append(list[top.Name], n.Path()+" "+p.Summary())
			}
			for _, child := range n.Children {
				describe(child)
			}
		}
		describe(top)
		slices.Sort(list[top.Name])
	}
	if slices.Contains(slices.Collect(maps.Keys(list)), "") {
		t.Fatal("a command has no name")
	}
	return list
}
