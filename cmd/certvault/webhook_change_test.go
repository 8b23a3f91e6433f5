package main

import (
	"bytes"
	"context"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/certvault/certvault/internal/webhook"
)

func TestEndpointIsChangedAndDeleted(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	createInstitution(t, dir)
	with := func(args ...string) []string {
		return append(args, "--data", dir, "--institution", "northwest-university")
	}
	var created struct{ ID string }
	runJSON(t, "", &created, with("webhook", "create", "--url", "https://a.example.org/hook", "--header", "X-Key: 1")...)
	var changed struct {
		URL    string
		Events []webhook.Name
	}
	runJSON(t, "", &changed, with("webhook", "update", created.ID, "--url", "https://b.example.org/hook", "--event", string(webhook.Approved))...)
	if changed.URL != "https://b.example.org/hook" || !slices.Equal(changed.Events, []webhook.Name{webhook.Approved}) {
		t.Errorf("changed endpoint = %+v, want the new URL and only the event approved", changed)
	}
	runJSON(t, "", &changed, with("webhook", "update", created.ID, "--all-events", "--no-headers")...)
	if changed.URL != "https://b.example.org/hook" || len(changed.Events) != 0 {
		t.Errorf("changed endpoint = %+v, want the same URL and all events", changed)
	}
	for name, tc := range map[string]struct {
		code int
		args []string
	}{
		"nothing to change":               {exitUsage, with("webhook", "update", created.ID)},
		"all events and one event":        {exitUsage, with("webhook", "update", created.ID, "--all-events", "--event", "x")},
		"no such event":                   {exitRefused, with("webhook", "update", created.ID, "--event", "x")},
		"no such endpoint":                {exitRefused, with("webhook", "update", "x", "--all-events")},
		"deletion without --yes":          {exitUsage, with("webhook", "delete", created.ID)},
		"deletion of an unknown endpoint": {exitRefused, with("webhook", "delete", "x", "--yes")},
	} {
		if code, _, errs := certvault(t, "", tc.args...); code != tc.code || errs == "" {
			t.Errorf("%s: exit code = %d, want %d and an error: %s", name, code, tc.code, errs)
		}
	}
	var deleted struct{ Deleted bool }
	runJSON(t, "", &deleted, with("webhook", "delete", created.ID, "--yes")...)
	var list []endpointRow
	runJSON(t, "", &list, with("webhook", "list")...)
	if !deleted.Deleted || len(list) != 0 {
		t.Errorf("deleted = %v, list = %+v, want true and an empty list", deleted.Deleted, list)
	}
}

// TestWebhookTestIsInterrupted checks that an interrupted test is not reported as a missing server.
func TestWebhookTestIsInterrupted(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	createInstitution(t, dir)
	var created struct{ ID string }
	runJSON(t, "", &created, "webhook", "create", "--url", "https://a.example.org/hook", "--data", dir, "--institution", "northwest-university")
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	time.AfterFunc(time.Second, cancel)
	var out, errs bytes.Buffer
	code := run(ctx, []string{"webhook", "test", created.ID, "--data", dir, "--institution", "northwest-university"}, nil, &out, &errs)
	if code != exitRefused || !strings.Contains(errs.String(), "interrupted") {
		t.Errorf("exit code = %d, want 1 and an error that says interrupted: %s%s", code, out.String(), errs.String())
	}
}
