package main

import (
	"slices"
	"testing"

	"github.com/certvault/certvault/internal/webhook"
)

func TestEndpointIsChangedAndDeleted(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	institution(t, dir)
	with := func(args ...string) []string {
		return append(args, "--data", dir, "--institution", "northwest-university")
	}
	var made struct{ ID string }
	answer(t, "", &made, with("webhook", "create", "--url", "https://a.example.org/hook", "--header", "X-Key: 1")...)
	var changed struct {
		URL    string
		Events []webhook.Name
	}
	answer(t, "", &changed, with("webhook", "update", made.ID, "--url", "https://b.example.org/hook", "--event", string(webhook.Approved))...)
	if changed.URL != "https://b.example.org/hook" || !slices.Equal(changed.Events, []webhook.Name{webhook.Approved}) {
		t.Errorf("%+v", changed)
	}
	answer(t, "", &changed, with("webhook", "update", made.ID, "--all-events", "--no-headers")...)
	if changed.URL != "https://b.example.org/hook" || len(changed.Events) != 0 {
		t.Errorf("%+v", changed)
	}
	for name, tc := range map[string]struct {
		code int
		args []string
	}{
		"nothing to change":      {exitUsage, with("webhook", "update", made.ID)},
		"both":                   {exitUsage, with("webhook", "update", made.ID, "--all-events", "--event", "x")},
		"no such event":          {exitRefused, with("webhook", "update", made.ID, "--event", "x")},
		"no such endpoint":       {exitRefused, with("webhook", "update", "x", "--all-events")},
		"unasked":                {exitUsage, with("webhook", "delete", made.ID)},
		"delete what is not one": {exitRefused, with("webhook", "delete", "x", "--yes")},
	} {
		if code, _, errs := certvault(t, "", tc.args...); code != tc.code || errs == "" {
			t.Errorf("%s: exit %d: %s", name, code, errs)
		}
	}
	var deleted struct{ Deleted bool }
	answer(t, "", &deleted, with("webhook", "delete", made.ID, "--yes")...)
	var list []endpointRow
	answer(t, "", &list, with("webhook", "list")...)
	if !deleted.Deleted || len(list) != 0 {
		t.Errorf("%+v", list)
	}
}
