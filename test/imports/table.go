package main

import (
	"errors"
	"fmt"
	"slices"
	"strings"
)

// client is the only package in the list that is not below internal.
const client = "client"

// table is the parsed content of docs/imports.txt.
type table struct {
	layers  []layer // from top to bottom
	tests   []string
	harness []string // packages that the tests of every package may import
	pure    []string
	outside []outsider
}

type layer struct {
	name     string
	packages []string
}

// outsider is a package that may import only the listed internal packages.
type outsider struct {
	name    string
	allowed []string
}

func parse(text string) (*table, error) {
	t := &table{}
	for number, line := range strings.Split(text, "\n") {
		line, _, _ = strings.Cut(line, "#")
		if line = strings.TrimSpace(line); line == "" {
			continue
		}
		name, rest, found := strings.Cut(line, ":")
		names := strings.Fields(rest)
		if !found || name == "" || len(names) == 0 {
			return nil, fmt.Errorf("line %d: expected a name, a colon and packages", number+1)
		}
		switch name {
		case "tests":
			t.tests = append(t.tests, names...)
		case "harness":
			t.harness = append(t.harness, names...)
		case "pure":
			t.pure = append(t.pure, names...)
		case "outside":
			if len(names) < 2 || names[1] != "->" {
				return nil, fmt.Errorf("line %d: expected a package, an arrow and packages", number+1)
			}
			t.outside = append(t.outside, outsider{names[0], names[2:]})
		default:
			t.layers = append(t.layers, layer{name, names})
		}
	}
	return t, nil
}

// listed returns the packages for tests and the packages of all layers.
func (t *table) listed() []string {
	names := slices.Clone(t.tests)
	for _, l := range t.layers {
		names = append(names, l.packages...)
	}
	return names
}

// check returns an error if the list does not match the folders below internal, or lists a package twice.
// Packages in the lines pure, harness and outside, except client, must also be in a layer or in the line
// tests.
func (t *table) check(folders []string) error {
	listed := t.listed()
	var errs []error
	for _, f := range folders {
		parent := func(name string) bool { return strings.HasPrefix(f, name+"/") && !t.hasChildren(name) }
		if !slices.Contains(listed, f) && !slices.ContainsFunc(listed, parent) {
			errs = append(errs, fmt.Errorf("internal/%s is not listed", f))
		}
	}
	for i, name := range listed {
		if slices.Contains(listed[:i], name) {
			errs = append(errs, fmt.Errorf("%s is listed twice", name))
		}
		if !slices.Contains(folders, name) {
			errs = append(errs, fmt.Errorf("there is no package internal/%s", name))
		}
	}
	marked := slices.Concat(t.pure, t.harness)
	for _, o := range t.outside {
		marked = append(marked, o.name)
	}
	for _, name := range marked {
		if name != client && !slices.Contains(listed, name) {
			errs = append(errs, fmt.Errorf("%s is in no layer", name))
		}
	}
	return errors.Join(errs...)
}

// hasChildren reports whether a layer lists a folder below a package.
func (t *table) hasChildren(name string) bool {
	for _, l := range t.layers {
		if slices.ContainsFunc(l.packages, func(p string) bool { return strings.HasPrefix(p, name+"/") }) {
			return true
		}
	}
	return false
}
