// Command long runs tests that "make test/race" runs only in part or not at all. These are the tests that
// call testing.Short, and all tests of the packages in the arguments before "--". The arguments
// after "--" are flags of go test.
package main

import (
	"errors"
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
)

// roots are the folders in which find looks for tests that call testing.Short.
var roots = []string{"client", "cmd", "internal", "test/prose"}

func main() {
	if err := run(os.Args[1:]); err != nil {
		fmt.Fprintln(os.Stderr, "long:", err)
		os.Exit(1)
	}
}

func run(args []string) error {
	i := slices.Index(args, "--")
	if i < 0 {
		return errors.New("the arguments have no --")
	}
	whole, flags := args[:i], args[i+1:]
	tests, folders, err := find(roots)
	if err != nil {
		return err
	}
	if len(tests) == 0 {
		return errors.New("no test calls testing.Short")
	}
	some := slices.Concat([]string{"test", "-run", "^(" + strings.Join(tests, "|") + ")$"}, flags)
	for _, f := range folders {
		if name := "./" + f; !slices.Contains(whole, name) {
			some = append(some, name)
		}
	}
	all := slices.Concat([]string{"test"}, flags, whole)
	return errors.Join(goTool(some), goTool(all))
}

func goTool(args []string) error {
	c := exec.Command("go", args...) //nolint:gosec,noctx // the arguments are flags of go test and packages
	c.Stdout, c.Stderr = os.Stdout, os.Stderr
	if err := c.Run(); err != nil {
		return fmt.Errorf("running the tests: %w", err)
	}
	return nil
}

// find returns the names of the tests that call testing.Short, directly or through functions in the
// test files of the same folder, and the folders of these tests. Both lists are sorted.
func find(roots []string) (tests, folders []string, err error) {
	packages := map[string]functions{}
	for _, root := range roots {
		err := filepath.WalkDir(root, func(name string, _ fs.DirEntry, err error) error {
			if err != nil || !strings.HasSuffix(name, "_test.go") {
				return err
			}
			folder := filepath.Dir(name)
			if packages[folder] == nil {
				packages[folder] = functions{}
			}
			return packages[folder].add(name)
		})
		if err != nil {
			return nil, nil, fmt.Errorf("reading tests: %w", err)
		}
	}
	names := map[string]bool{}
	for folder, f := range packages {
		short := f.short()
		for _, name := range short {
			names[name] = true
		}
		if len(short) > 0 {
			folders = append(folders, folder)
		}
	}
	slices.Sort(folders)
	return slices.Sorted(maps.Keys(names)), folders, nil
}

// functions maps the name of each function in the test files of a folder to the names of the functions that
// it calls. Functions and methods with the same name share an entry.
type functions map[string]map[string]bool

// shortCall is the name under which a call of testing.Short is recorded.
const shortCall = "testing.Short"

// add adds the functions of a file.
func (f functions) add(name string) error {
	file, err := parser.ParseFile(token.NewFileSet(), name, nil, parser.SkipObjectResolution)
	if err != nil {
		return err
	}
	for _, d := range file.Decls {
		function, ok := d.(*ast.FuncDecl)
		if !ok {
			continue
		}
		calls := f[function.Name.Name]
		if calls == nil {
			calls = map[string]bool{}
			f[function.Name.Name] = calls
		}
		ast.Inspect(function, func(n ast.Node) bool {
			call, ok := n.(*ast.CallExpr)
			if !ok {
				return true
			}
			switch called := call.Fun.(type) {
			case *ast.Ident:
				calls[called.Name] = true
			case *ast.SelectorExpr:
				if x, ok := called.X.(*ast.Ident); ok && x.Name == "testing" {
					calls["testing."+called.Sel.Name] = true
				}
				calls[called.Sel.Name] = true
			}
			return true
		})
	}
	return nil
}

// short returns the names of the tests that call testing.Short, directly or indirectly.
func (f functions) short() (tests []string) {
	reaches := map[string]bool{shortCall: true}
	for added := true; added; {
		added = false
		for name, calls := range f {
			if reaches[name] {
				continue
			}
			for called := range calls {
				if reaches[called] {
					reaches[name], added = true, true
					break
				}
			}
		}
	}
	for name := range reaches {
		if strings.HasPrefix(name, "Test") {
			tests = append(tests, name)
		}
	}
	return tests
}
