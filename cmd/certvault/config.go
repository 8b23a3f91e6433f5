package main

import (
	"fmt"
	"io"
	"net/url"
	"os"
	"reflect"
	"strings"
	"time"

	"github.com/alecthomas/kong"

	"github.com/certvault/certvault/internal/config"
)

type configCommand struct {
	config.Serve
}

// setting is the value of a flag of serve and where the value comes from.
type setting struct {
	Name   string `json:"name"`
	Value  string `json:"value"`
	Source string `json:"source"`
}

// Run prints the settings of serve and where each value comes from. If serve would refuse the
// settings, Run returns the same error.
func (s *configCommand) Run(c *console, parsed *kong.Context) error {
	list := settingsOf(parsed)
	invalid := s.Finish()
	for i, after := range settingsOf(parsed) {
		if after.Value != list[i].Value && list[i].Value == "" {
			list[i] = setting{after.Name, after.Value, "other settings"}
		}
	}
	err := c.print(list, func(w io.Writer) {
		t := newTable(w, "SETTING", "VALUE", "FROM")
		for _, l := range list {
			t.row(l.Name, l.Value, l.Source)
		}
		t.flush()
	})
	if err == nil && invalid != nil {
		err = &usageError{invalid}
	}
	return err
}

// settingsOf returns the settings of the command that was parsed, and the secrets in the environment.
func settingsOf(parsed *kong.Context) (list []setting) {
	given, file := map[*kong.Flag]bool{}, map[*kong.Flag]bool{}
	for _, p := range parsed.Path {
		if p.Flag != nil {
			given[p.Flag], file[p.Flag] = !p.Resolved, p.Resolved
		}
	}
	for _, f := range parsed.Selected().Flags {
		s := setting{Name: f.Name, Value: valueText(f.Target), Source: "default"}
		if s.Value != "" && f.Tag.Has("secret") {
			s.Value = hidden
		}
		switch {
		case given[f]:
			s.Source = "command line"
		case file[f]:
			s.Source = "configuration file"
		default:
			for _, name := range f.Envs {
				if _, set := os.LookupEnv(name); set {
					s.Source = name
				}
			}
		}
		list = append(list, s)
	}
	for _, name := range []string{config.MasterKeyVariable, config.KeyIdentityVariable, config.ACMEKeyVariable} {
		if os.Getenv(name) != "" {
			list = append(list, setting{strings.ReplaceAll(strings.ToLower(strings.TrimPrefix(name, "CERTVAULT_")), "_", "-"), hidden, name})
		}
	}
	return list
}

// hidden is printed in place of a secret value.
const hidden = "(set)"

// withoutPassword returns a value with "xxxxx" in place of each password if the value is a URL.
func withoutPassword(value string) string {
	if !strings.Contains(value, "://") {
		return value
	}
	u, err := url.Parse(value)
	if err != nil {
		return "(not a URL)"
	}
	q, changed := u.Query(), false
	for name := range q {
		if strings.Contains(strings.ToLower(name), "password") {
			q.Set(name, "xxxxx") // like Redacted
			changed = true
		}
	}
	if changed {
		u.RawQuery = q.Encode()
	}
	return u.Redacted()
}

// valueText returns a value as it is written on the command line, without passwords in URLs.
func valueText(v reflect.Value) string {
	if v.Kind() == reflect.Pointer {
		if v.IsNil() {
			return ""
		}
		return valueText(v.Elem())
	}
	if v.Kind() == reflect.Slice {
		list := make([]string, v.Len())
		for i := range list {
			list[i] = valueText(v.Index(i))
		}
		return strings.Join(list, ",")
	}
	switch d := v.Interface().(type) {
	case time.Duration, config.Duration:
		text := fmt.Sprint(d)
		for _, zero := range []string{"m0s", "h0m"} {
			if strings.HasSuffix(text, zero) {
				text = text[:len(text)-2]
			}
		}
		return text
	default:
		return withoutPassword(fmt.Sprint(d))
	}
}
