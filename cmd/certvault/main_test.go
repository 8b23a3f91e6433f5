package main

import (
	"bytes"
	"encoding/json"
	"errors"
	"image"
	"image/png"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"
)

// certvault runs a command line in this process.
func certvault(t *testing.T, stdin string, args ...string) (code int, stdout, stderr string) {
	t.Helper()
	var out, errs bytes.Buffer
	code = run(t.Context(), args, strings.NewReader(stdin), &out, &errs)
	return code, out.String(), errs.String()
}

// answer runs a command that must succeed and decodes its JSON.
func answer(t *testing.T, stdin string, into any, args ...string) {
	t.Helper()
	code, out, errs := certvault(t, stdin, append(args, "--json")...)
	if code != exitDone {
		t.Fatalf("%v: exit %d: %s", args, code, errs)
	}
	if err := json.Unmarshal([]byte(out), into); err != nil {
		t.Fatalf("%v: %s: %v", args, out, err)
	}
}

func institution(t *testing.T, dir string) {
	t.Helper()
	var made struct {
		ID                 int64
		UUID, Slug, Prefix string
	}
	answer(t, "correct horse\n", &made, "institution", "create", "--data", dir, "--name", "Northwest University", "--prefix", "NWU",
		"--owner-email", "o@example.org", "--owner-name", "Owner", "--owner-password-stdin")
	if made.ID == 0 || len(made.UUID) != 36 || made.Slug != "northwest-university" || made.Prefix != "NWU" {
		t.Fatalf("made %+v", made)
	}
}

func TestAdministration(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	institution(t, dir)
	at := []string{"--data", dir, "--institution", "northwest-university"}

	var token struct {
		ID    int64
		Token string
	}
	answer(t, "", &token, append([]string{"token", "create", "--name", "CI", "--permission", "certificate-vault:list", "--expires", "90d"}, at...)...)
	if !strings.HasPrefix(token.Token, "cvt_") || len(token.Token) != 40 {
		t.Fatalf("token %+v", token)
	}
	var list []struct {
		ID        int64
		Name      string
		ExpiresAt *time.Time `json:"expires_at"`
		RevokedAt *time.Time `json:"revoked_at"`
	}
	answer(t, "", &list, append([]string{"token", "list"}, at...)...)
	if len(list) != 1 || list[0].ID != token.ID || list[0].Name != "CI" || list[0].RevokedAt != nil {
		t.Fatalf("list %+v", list)
	}
	if until := time.Until(*list[0].ExpiresAt); until < 89*24*time.Hour || until > 90*24*time.Hour {
		t.Fatalf("90d ends in %v", until)
	}
	if code, _, errs := certvault(t, "", append([]string{"token", "revoke", "1"}, at...)...); code != exitDone {
		t.Fatalf("exit %d: %s", code, errs)
	}
	answer(t, "", &list, append([]string{"token", "list"}, at...)...)
	if list[0].RevokedAt == nil {
		t.Fatal("the token is not revoked")
	}

	var hook struct{ ID, Secret string }
	answer(t, "", &hook, append([]string{"webhook", "create", "--url", "https://hooks.example.org/x", "--event", "certificate_application.approved"}, at...)...)
	if len(hook.ID) != 36 || !strings.HasPrefix(hook.Secret, "whsec_") {
		t.Fatalf("hook %+v", hook)
	}

	var policy struct {
		Placement string
		Box       []float64 `json:"placement_box"`
		Active    bool      `json:"refuse_active"`
	}
	answer(t, "", &policy, append([]string{"institution", "set", "--placement", "exact", "--placement-box", "0.1,0.1,0.3,0.2", "--refuse-active"}, at...)...)
	if policy.Placement != "exact" || len(policy.Box) != 4 || !policy.Active {
		t.Fatalf("policy %+v", policy)
	}
	answer(t, "", &policy, append([]string{"institution", "set", "--placement", "strip"}, at...)...)
	if policy.Placement != "strip" || policy.Box != nil || !policy.Active {
		t.Fatalf("policy %+v: values not given must stay, and without exact placement there must be no box", policy)
	}
}

func TestPublicProfile(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	institution(t, dir)
	logo := filepath.Join(t.TempDir(), "logo.png")
	var b bytes.Buffer
	if err := errors.Join(png.Encode(&b, image.NewGray(image.Rect(0, 0, 8, 8))), os.WriteFile(logo, b.Bytes(), 0o600)); err != nil {
		t.Fatal(err)
	}
	type public struct {
		Hide     bool `json:"hide_name"`
		Image    bool `json:"public_image"`
		Download bool `json:"public_download"`
		Contact  string
		Logo     string `json:"logo_sha256"`
		Colour   string
	}
	set := []string{"institution", "set", "--data", dir, "--institution", "northwest-university"}
	var got public
	answer(t, "", &got, set...)
	if got != (public{}) {
		t.Errorf("undecided: %+v", got)
	}
	answer(t, "", &got, append(set, "--public-image", "--public-download", "--contact", "r@example.org", "--logo", logo, "--colour", "#1A237E")...)
	if got.Colour != "#1a237e" || !got.Image || !got.Download || got.Contact != "r@example.org" || len(got.Logo) != 64 {
		t.Errorf("set: %+v", got)
	}
	if code, _, errs := certvault(t, "", append(set, "--hide-name")...); code != exitRefused || !strings.Contains(errs, "show the name") {
		t.Errorf("a hidden name in a public file: exit %d, %s", code, errs)
	}
	var hidden public
	answer(t, "", &hidden, append(set, "--hide-name", "--no-public-image", "--no-public-download", "--logo", "", "--colour", "")...)
	if hidden != (public{Hide: true, Contact: "r@example.org"}) {
		t.Errorf("hidden: %+v", hidden)
	}
}

func TestMailSettings(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	institution(t, dir)
	set := []string{"institution", "set", "--data", dir, "--institution", "northwest-university"}
	type answered struct {
		Sender string                                         `json:"mail_sender"`
		Reply  string                                         `json:"reply_to"`
		Tag    string                                         `json:"mail_language"`
		Words  map[string]struct{ Paragraph, Closing string } `json:"mail_words"`
	}
	var a answered
	answer(t, "", &a, append(set, "--mail-language", "de", "--mail-sender", "Registrar", "--reply-to", "registry@example.org",
		"--mail-paragraph", "Liebe {name}!", "--mail-closing", "Ihr Büro")...)
	if a.Sender != "Registrar" || a.Reply != "registry@example.org" || a.Tag != "de" || a.Words["de"].Paragraph != "Liebe {name}!" || a.Words["de"].Closing != "Ihr Büro" {
		t.Errorf("set: %+v", a)
	}
	answer(t, "", &a, append(set, "--words-language", "en", "--mail-closing", "Your office")...)
	if len(a.Words) != 2 || a.Words["en"].Closing != "Your office" || a.Words["de"].Closing != "Ihr Büro" {
		t.Errorf("in another language: %+v", a)
	}
	var kept struct {
		Failed  int `json:"keep_failed"`
		Revoked int `json:"keep_revoked"`
		Mail    int `json:"keep_mail"`
	}
	answer(t, "", &kept, append(set, "--keep-failed", "90", "--keep-mail", "365")...)
	if kept.Failed != 90 || kept.Revoked != 0 || kept.Mail != 365 {
		t.Errorf("kept: %+v", kept)
	}
	answer(t, "", &kept, append(set, "--keep-failed", "0")...)
	if kept.Failed != 0 || kept.Mail != 365 {
		t.Errorf("kept: %+v", kept)
	}
	if code, _, errs := certvault(t, "", append(set, "--mail-paragraph", "Dear {first_name}")...); code != exitRefused || !strings.Contains(errs, "{first_name}") {
		t.Errorf("an unknown place: exit %d, %s", code, errs)
	}
}

// A change that is refused leaves everything as it was, wherever it stands among
// the others.
func TestSettingsAreSavedTogether(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	institution(t, dir)
	set := []string{"institution", "set", "--data", dir, "--institution", "northwest-university"}
	entries := func() int {
		code, out, errs := certvault(t, "", "audit", "export", "--data", dir, "--institution", "northwest-university", "--action", "institution", "--format", "jsonl")
		if code != exitDone {
			t.Fatal(errs)
		}
		return strings.Count(out, "\n")
	}
	var before, after map[string]any
	answer(t, "", &before, set...)
	recorded := entries()
	good := []string{
		"--placement", "top-left", "--refuse-active", "--contact", "r@example.org", "--mail-language", "de", "--mail-sender", "Registrar",
		"--mail-closing", "Ihr Büro", "--keep-failed", "90", "--colour", "#1a237e",
	}
	for says, bad := range map[string][]string{
		"colour": {"--colour", "#ffcc00"}, "keep_mail": {"--keep-mail", "3"}, "{first_name}": {"--mail-paragraph", "{first_name}"},
		"reply_to": {"--reply-to", "nobody"}, "hide_name": {"--hide-name", "--public-image"}, "placement_page": {"--placement-page", "0"},
	} {
		args := append(append(slices.Clone(set), good...), bad...)
		if code, _, errs := certvault(t, "", args...); code != exitRefused || !strings.Contains(errs, says) {
			t.Errorf("%v: exit %d, %s", bad, code, errs)
		}
		after = nil
		answer(t, "", &after, set...)
		if now := entries(); !reflect.DeepEqual(after, before) || now != recorded {
			t.Errorf("%v changed %v to %v, with %d entries more in the log", bad, before, after, now-recorded)
		}
	}
	answer(t, "", &after, append(set, good...)...)
	if now := entries(); after["contact"] != "r@example.org" || after["colour"] != "#1a237e" || now <= recorded {
		t.Errorf("%v, with %d entries in the log", after, now)
	}
}

func TestExitCodesAndMessages(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	institution(t, dir)
	create := []string{"institution", "create", "--data", dir, "--name", "Other", "--owner-email", "o@example.org", "--owner-name", "O", "--owner-password-stdin"}
	for name, tc := range map[string]struct {
		args []string
		code int
		says string
	}{
		"unknown command":    {[]string{"sing"}, exitUsage, "unexpected argument"},
		"missing flag":       {[]string{"token", "create", "--data", dir}, exitUsage, "--institution"},
		"prefix taken":       {append(create, "--prefix", "nwu"), exitRefused, "belongs to another institution"},
		"prefix malformed":   {append(create, "--prefix", "N-U"), exitRefused, "A-Z"},
		"unknown slug":       {[]string{"token", "list", "--data", dir, "--institution", "nowhere"}, exitRefused, "No such institution"},
		"unknown permission": {[]string{"token", "create", "--data", dir, "--institution", "northwest-university", "--name", "x", "--permission", "all"}, exitRefused, "certificate-vault:create"},
		"unknown event":      {[]string{"webhook", "create", "--data", dir, "--institution", "northwest-university", "--url", "https://a.example", "--event", "x"}, exitRefused, "certificate_application.created"},
		"no such token":      {[]string{"token", "revoke", "--data", dir, "--institution", "northwest-university", "77"}, exitRefused, "no such token"},
		"end in the past":    {[]string{"token", "create", "--data", dir, "--institution", "northwest-university", "--name", "x", "--permission", "certificate-vault:list", "--expires", "2020-01-01"}, exitRefused, "future"},
		"end malformed":      {[]string{"token", "create", "--data", dir, "--institution", "northwest-university", "--name", "x", "--permission", "certificate-vault:list", "--expires", "soon"}, exitUsage, "90d"},
		"box malformed":      {[]string{"institution", "set", "--data", dir, "--institution", "northwest-university", "--placement-box", "1,2"}, exitUsage, "X0,Y0,X1,Y1"},
		"box inside out":     {[]string{"institution", "set", "--data", dir, "--institution", "northwest-university", "--placement", "exact", "--placement-box", "0.5,0,0.4,1"}, exitRefused, "x0 < x1"},
		"colour too light":   {[]string{"institution", "set", "--data", dir, "--institution", "northwest-university", "--colour", "#ffcc00"}, exitRefused, "1.5:1"},
		"kept too shortly":   {[]string{"institution", "set", "--data", dir, "--institution", "northwest-university", "--keep-failed", "7"}, exitRefused, "from 30 to 3653"},
		"serve misused":      {[]string{"serve", "--data", dir, "--base-url", "http://x"}, exitUsage, "https"},
	} {
		code, out, errs := certvault(t, "correct horse\n", tc.args...)
		if code != tc.code || !strings.Contains(errs, tc.says) || out != "" {
			t.Errorf("%s: exit %d, stdout %q, stderr %q; want exit %d and %q", name, code, out, errs, tc.code, tc.says)
		}
	}
}

func TestDoctor(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	code, out, _ := certvault(t, "", "doctor", "--data", dir+"/missing")
	if code != exitRefused || !strings.Contains(out, "WRONG") {
		t.Fatalf("exit %d: %s", code, out)
	}
	institution(t, dir+"/vault")
	code, out, errs := certvault(t, "", "doctor", "--data", dir+"/vault")
	if code != exitDone || !strings.Contains(out, "database: sqlite") {
		t.Fatalf("exit %d: %s%s", code, out, errs)
	}
}

func TestParseEnd(t *testing.T) {
	t.Parallel()
	now := time.Date(2026, 3, 28, 12, 0, 0, 0, time.UTC)
	for in, want := range map[string]time.Time{
		"90d":        now.AddDate(0, 0, 90),
		"24h":        now.Add(24 * time.Hour),
		"30s":        now.Add(30 * time.Second),
		"2026-04-01": time.Date(2026, 4, 2, 0, 0, 0, 0, time.UTC),
	} {
		got, err := parseEnd(in, now)
		if err != nil || !got.Equal(want) {
			t.Errorf("parseEnd(%q) = %v, %v; want %v", in, got, err, want)
		}
	}
	for _, in := range []string{"0d", "-1d", "1", "d", "2026-02-30", "tomorrow", "-5s", "999999d"} {
		if got, err := parseEnd(in, now); err == nil {
			t.Errorf("parseEnd(%q) = %v, want an error", in, got)
		}
	}
	if got, err := parseEnd("", now); got != nil || err != nil {
		t.Errorf("no end: %v, %v", got, err)
	}
}

func TestSince(t *testing.T) {
	t.Parallel()
	now := time.Date(2026, 7, 10, 12, 0, 0, 0, time.UTC)
	for text, want := range map[string]time.Time{
		"7d":                        now.AddDate(0, 0, -7),
		"24h":                       now.Add(-24 * time.Hour),
		"2026-07-01":                time.Date(2026, 7, 1, 0, 0, 0, 0, time.UTC),
		"2026-07-01T10:30:00+02:00": time.Date(2026, 7, 1, 8, 30, 0, 0, time.UTC),
	} {
		if got, err := parseSince(text, now); err != nil || !got.Equal(want) {
			t.Errorf("%s is %v, %v; not %v", text, got, err, want)
		}
	}
	for _, bad := range []string{"", "yesterday", "-1h", "2026-13-01", "0d"} {
		if got, err := parseSince(bad, now); err == nil {
			t.Errorf("%q is %v", bad, got)
		}
	}
}

// The commands for an endpoint answer in JSON and refuse invalid arguments.
func TestWebhookAdministration(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	institution(t, dir)
	at := []string{"--data", dir, "--institution", "northwest-university"}
	var hook struct{ ID, Secret string }
	answer(t, "", &hook, append([]string{"webhook", "create", "--url", "https://hooks.example.org/x", "--header", "X-Key: a, b: c"}, at...)...)
	var list []struct {
		ID, URL, Status string
		Events          []string
		Waiting         int
	}
	answer(t, "", &list, append([]string{"webhook", "list"}, at...)...)
	if len(list) != 1 || list[0].ID != hook.ID || list[0].Status != "active" || list[0].Events == nil {
		t.Fatalf("list %+v", list)
	}
	var turned struct{ ID, Status string }
	answer(t, "", &turned, append([]string{"webhook", "pause", hook.ID}, at...)...)
	if turned.Status != "paused" {
		t.Errorf("paused: %+v", turned)
	}
	answer(t, "", &turned, append([]string{"webhook", "resume", hook.ID}, at...)...)
	var rotated struct {
		Secret string
		Until  time.Time `json:"overlap_until"`
	}
	answer(t, "", &rotated, append([]string{"webhook", "rotate", hook.ID}, at...)...)
	if rotated.Secret == hook.Secret || !strings.HasPrefix(rotated.Secret, "whsec_") || time.Until(rotated.Until) < 23*time.Hour {
		t.Errorf("rotated: %+v", rotated)
	}
	for name, tc := range map[string]struct {
		args []string
		code int
		says string
	}{
		"rotated again":   {[]string{"rotate", hook.ID}, exitRefused, "promote"},
		"resumed again":   {[]string{"resume", hook.ID}, exitRefused, "active already"},
		"header of ours":  {[]string{"create", "--url", "https://a.example", "--header", "X-Webhook-ID: x"}, exitRefused, "set by the vault"},
		"header, no name": {[]string{"create", "--url", "https://a.example", "--header", "nonsense header: x"}, exitRefused, "not a valid header name"},
		"no endpoint":     {[]string{"pause", "00000000-0000-0000-0000-000000000000"}, exitRefused, "No such endpoint"},
		"no delivery":     {[]string{"redeliver", "1"}, exitRefused, "No such delivery"},
		"odd status":      {[]string{"log", hook.ID, "--status", "lost"}, exitRefused, "pending, delivered or exhausted"},
		"odd time":        {[]string{"replay", hook.ID, "--since", "yesterday"}, exitUsage, "--since"},
		"odd event":       {[]string{"test", hook.ID, "--event", "x"}, exitRefused, "There is no event"},
	} {
		code, _, errs := certvault(t, "", append(append([]string{"webhook"}, tc.args...), at...)...)
		if code != tc.code || !strings.Contains(errs, tc.says) {
			t.Errorf("%s: exit %d: %s", name, code, errs)
		}
	}
}
