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

// fileResolver gives flags their values from a TOML file, whose keys are the
// flags' names.
type fileResolver struct{ values map[string]any }

// Load reads a configuration file for kong.
func Load(r io.Reader) (kong.Resolver, error) {
	values := map[string]any{}
	if _, err := toml.NewDecoder(r).Decode(&values); err != nil {
		return nil, fmt.Errorf("reading the configuration file: %w", err)
	}
	return fileResolver{values: values}, nil
}

// Validate refuses keys that no flag has: a misspelt setting must not be
// silently left at its default.
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

// Resolve gives a flag's value, nil when the file has none. The environment wins
// over the file; kong by itself would have it the other way round.
func (f fileResolver) Resolve(_ *kong.Context, _ *kong.Path, flag *kong.Flag) (any, error) {
	for _, name := range flag.Envs {
		if _, set := os.LookupEnv(name); set {
			return nil, nil //nolint:nilnil // kong's way to say that there is no value
		}
	}
	for key, value := range f.values {
		if flagName(key) == flag.Name {
			return value, nil
		}
	}
	return nil, nil //nolint:nilnil // kong's way to say that there is no value
}

// flagName lets keys be written as in the environment, with underscores.
func flagName(key string) string { return strings.ReplaceAll(strings.ToLower(key), "_", "-") }
