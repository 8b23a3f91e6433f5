package main

import (
	"fmt"
	"slices"
	"strings"
)

// rule is a rule of depguard.
type rule struct {
	name string
	// files are patterns. A pattern that begins with ! is an exception.
	files []string
	// allow and deny are prefixes of import paths. A prefix that ends with $ matches only the whole path.
	// If prefixes of both lists match, the longer one applies.
	allow, deny []string
	reason      string
}

const internal = "github.com/certvault/certvault/internal/"

// rules returns the rules of depguard as YAML. Each package of a layer has one rule, which denies its
// import to files below internal. Exceptions are the files of the package itself, of higher layers and of
// packages for tests. Test files may also import packages of the harness. Further rules are for pure
// packages, for the packages in the lines of docs/imports.txt that begin with "outside:", and for code that is
// not a test.
func (t *table) rules() string {
	var all []rule
	var above []string
	for _, l := range t.layers {
		for _, name := range l.packages {
			r := rule{
				name: "import-" + name, files: []string{"**/internal/**", "!" + folders(append(slices.Clone(above), name)), "!" + folders(t.tests)},
				deny: t.prefixes(name), reason: "it is not in a lower layer, see docs/imports.txt",
			}
			if slices.Contains(t.harness, name) {
				r.files = append(r.files, "!$test")
			}
			all = append(all, r)
		}
		above = append(above, l.packages...)
	}
	all = append(all, rule{
		name: "pure", files: []string{folders(t.pure)}, allow: paths(t.pure),
		deny: []string{internal, "database/sql", "net$", "net/http"}, reason: "this package is pure",
	})
	for _, o := range t.outside {
		r := rule{name: "outside-" + o.name, files: []string{folders([]string{o.name})}, allow: paths(o.allowed), deny: []string{internal}}
		if o.name == client {
			r.files = []string{"**/client/*.go"}
		}
		r.reason = "this package may import only the listed internal packages"
		all = append(all, r)
	}
	all = append(all, rule{
		name: "shipped", files: []string{"**/{cmd,internal}/**", "!$test", "!" + folders(t.tests)},
		deny: append([]string{"testing$", strings.TrimSuffix(internal, "internal/") + "test/"}, paths(t.tests)...), reason: "for tests",
	})
	var b strings.Builder
	for _, r := range all {
		r.write(&b)
	}
	return b.String()
}

// prefixes returns prefixes of import paths that match a package and the folders that belong to it, but no
// other package of a layer.
func (t *table) prefixes(name string) []string {
	path := internal + name
	shared := func(other string) bool {
		below := strings.HasPrefix(other, name+"/") && slices.Contains(t.tests, other)
		return other != name && strings.HasPrefix(other, name) && !below
	}
	switch {
	case t.hasChildren(name):
		return []string{path + "$"}
	case slices.ContainsFunc(t.listed(), shared):
		return []string{path + "$", path + "/"}
	}
	return []string{path}
}

func (r *rule) write(b *strings.Builder) {
	line := func(format string, args ...any) { fmt.Fprintf(b, "        "+format+"\n", args...) }
	line("%s:", strings.ReplaceAll(r.name, "/", "-"))
	line("  files: [%s]", quoted(r.files))
	if len(r.allow) > 0 {
		line("  list-mode: lax")
		line("  allow: [%s]", quoted(r.allow))
	}
	line("  deny:")
	for _, path := range r.deny {
		line("    - {pkg: %s, desc: %q}", path, r.reason)
	}
}

func quoted(list []string) string {
	return `"` + strings.Join(list, `", "`) + `"`
}

// folders returns a pattern for the files of packages.
func folders(names []string) string {
	if len(names) == 1 {
		return "**/internal/" + names[0] + "/**"
	}
	return "**/internal/{" + strings.Join(names, ",") + "}/**"
}

func paths(names []string) []string {
	list := make([]string, len(names))
	for i, name := range names {
		list[i] = internal + name
	}
	return list
}

// markdown returns the table of layers, and the sentences about the other packages, as Markdown.
func (t *table) markdown() string {
	var b strings.Builder
	b.WriteString("\n| Layer | Packages |\n|---|---|\n")
	for _, l := range t.layers {
		fmt.Fprintf(&b, "| %s | %s |\n", l.name, code(l.packages))
	}
	fmt.Fprintf(&b, "\nFor tests only: %s. Pure: %s.", code(t.tests), code(t.pure))
	for _, o := range t.outside {
		fmt.Fprintf(&b, " `%s` imports ", o.name)
		if len(o.allowed) == 0 {
			b.WriteString("no internal package.")
		} else {
			fmt.Fprintf(&b, "only %s.", code(o.allowed))
		}
	}
	b.WriteString("\n\n")
	return b.String()
}

func code(names []string) string {
	return "`" + strings.Join(names, "`, `") + "`"
}
