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

// fileResolver resolves flags from a TOML file, whose keys are the names of the flags.
type fileResolver struct{ values map[string]any }

// Load reads a configuration file for kong.
func Load(r io.Reader) (kong.Resolver, error) {
	values := map[string]any{}
	if _, err := toml.NewDecoder(r).Decode(&values); err != nil {
		return nil, fmt.Errorf("reading the configuration file: %w", err)
	}
	return fileResolver{values: values}, nil
}

// Validate returns an error for keys that are not names of flags, so that misspelt settings are found.
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

// Resolve returns the value of a flag. It returns nil if the file has no value for it, or if the environment
// has one. Without this rule, the file would override the environment in kong.
func (f fileResolver) Resolve(_ *kong.Context, _ *kong.Path, flag *kong.Flag) (any, error) {
	for _, name := range flag.Envs {
		if _, set := os.LookupEnv(name); set {
			return nil, nil //nolint:nilnil // kong uses nil for no value
		}
	}
	for key, value := range f.values {
		if flagName(key) != flag.Name {
			continue
		}
		if list, ok := value.([]any); ok {
			return joined(list), nil
		}
		return value, nil
	}
	return nil, nil //nolint:nilnil // kong uses nil for no value
}

// joined returns a list as on the command line, with the values separated by commas. kong would decode a
// list with encoding/json, which cannot decode a text such as "5s" to a duration.
func joined(list []any) string {
	texts := make([]string, len(list))
	for i, v := range list {
		texts[i] = fmt.Sprint(v)
	}
	return kong.JoinEscaped(texts, ',')
}

// flagName converts a key of the file to the name of a flag. A key may have underscores and uppercase
// letters, as environment variables have.
func flagName(key string) string { return strings.ReplaceAll(strings.ToLower(key), "_", "-") }
