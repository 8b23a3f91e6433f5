package config

import (
	"fmt"
	"io"
	"os"
	"slices"
	"strings"

	"github.com/BurntSushi/toml"
	"github.com/alecthomas/kong"
)

// fileResolver resolves flags from a TOML file, whose keys are the flags'
// names.
type fileResolver struct{ values map[string]any }

// Load reads a configuration file for kong.
func Load(r io.Reader) (kong.Resolver, error) {
	values := map[string]any{}
	if _, err := toml.NewDecoder(r).Decode(&values); err != nil {
		return nil, fmt.Errorf("reading the configuration file: %w", err)
	}
	return fileResolver{values: values}, nil
}

// Validate refuses keys that no flag has, so that a misspelt setting is not
// silently ignored.
func (f fileResolver) Validate(app *kong.Application) error {
	known := map[string]bool{}
	_ = kong.Visit(app, func(node kong.Visitable, next kong.Next) error {
		if flag, ok := node.(*kong.Flag); ok {
			known[flag.Name] = true
		}
		return next(nil)
	})
	var unknown []string
	for key := range f.values {
		if !known[flagName(key)] {
			unknown = append(unknown, key)
		}
	}
	if len(unknown) > 0 {
		slices.Sort(unknown)
		return fmt.Errorf("the configuration file has unknown keys: %s", strings.Join(unknown, ", "))
	}
	return nil
}

// Resolve returns the value of a flag, or nil if the file has none. The
// environment overrides the file; kong by default does the opposite.
func (f fileResolver) Resolve(_ *kong.Context, _ *kong.Path, flag *kong.Flag) (any, error) {
	for _, name := range flag.Envs {
		if _, set := os.LookupEnv(name); set {
			return nil, nil //nolint:nilnil // kong uses nil for no value
		}
	}
	for key, value := range f.values {
		if flagName(key) == flag.Name {
			return value, nil
		}
	}
	return nil, nil //nolint:nilnil // kong uses nil for no value
}

// flagName converts a key to a flag name; it accepts the form of environment
// variables, with underscores.
func flagName(key string) string { return strings.ReplaceAll(strings.ToLower(key), "_", "-") }
