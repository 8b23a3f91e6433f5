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

	"github.com/certvault/certvault/internal/account"
	"github.com/certvault/certvault/internal/cert/certtest"
	"github.com/certvault/certvault/internal/db/dbtest"
)

// TestMain reduces the cost of hashing passwords, which would otherwise take a fifth of the time of
// the tests.
func TestMain(m *testing.M) {
	account.DefaultCost = certtest.Cost
	os.Exit(m.Run())
}

// certvault runs a command line in this process.
func certvault(t *testing.T, stdin string, args ...string) (code int, stdout, stderr string) {
	t.Helper()
	var out, errs bytes.Buffer
	code = run(t.Context(), args, strings.NewReader(stdin), &out, &errs)
	return code, out.String(), errs.String()
}

// runJSON runs a command with --json and decodes its output.
func runJSON(t *testing.T, stdin string, into any, args ...string) {
	t.Helper()
	code, out, errs := certvault(t, stdin, append(args, "--json")...)
	if code != exitDone {
		t.Fatalf("%v: exit code = %d, want 0: %s", args, code, errs)
	}
	if err := json.Unmarshal([]byte(out), into); err != nil {
		t.Fatalf("%v: the output %s is not JSON: %v", args, out, err)
	}
}

// createInstitution creates an institution in a data folder, and the database if the folder has none.
func createInstitution(t *testing.T, dir string) {
	t.Helper()
	dbtest.CopyTemplate(t, dir)
	var created struct {
		ID                 int64
		UUID, Slug, Prefix string
	}
	runJSON(t, "correct horse\n", &created, "institution", "create", "--data", dir, "--name", "Northwest University", "--prefix", "NWU",
		"--owner-email", "o@example.org", "--owner-name", "Owner", "--owner-password-stdin")
	if created.ID == 0 || len(created.UUID) != 36 || created.Slug != "northwest-university" || created.Prefix != "NWU" {
		t.Fatalf("created institution = %+v, want an id, a UUID, the slug northwest-university and the prefix NWU", created)
	}
}

func TestTokenWebhookAndPlacementCommands(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	createInstitution(t, dir)
	at := []string{"--data", dir, "--institution", "northwest-university"}

	var token struct {
		ID    int64
		Token string
	}
	runJSON(t, "", &token, append([]string{"token", "create", "--name", "CI", "--permission", "certificate-vault:list", "--expires", "90d"}, at...)...)
	if !strings.HasPrefix(token.Token, "cvt_") || len(token.Token) != 40 {
		t.Fatalf("token = %+v, want 40 characters that begin with cvt_", token)
	}
	var list []struct {
		ID        int64
		Name      string
		ExpiresAt *time.Time `json:"expires_at"`
		RevokedAt *time.Time `json:"revoked_at"`
	}
	runJSON(t, "", &list, append([]string{"token", "list"}, at...)...)
	if len(list) != 1 || list[0].ID != token.ID || list[0].Name != "CI" || list[0].RevokedAt != nil {
		t.Fatalf("list = %+v, want the token CI, which is not revoked", list)
	}
	if until := time.Until(*list[0].ExpiresAt); until < 89*24*time.Hour || until > 90*24*time.Hour {
		t.Fatalf("a token for 90d expires in %v, want between 89 and 90 days", until)
	}
	if code, _, errs := certvault(t, "", append([]string{"token", "revoke", "1"}, at...)...); code != exitDone {
		t.Fatalf("token revoke: exit code = %d, want 0: %s", code, errs)
	}
	runJSON(t, "", &list, append([]string{"token", "list"}, at...)...)
	if list[0].RevokedAt == nil {
		t.Fatal("revoked_at = null, want a time")
	}

	var hook struct{ ID, Secret string }
	runJSON(t, "", &hook, append([]string{"webhook", "create", "--url", "https://hooks.example.org/x", "--event", "certificate_application.approved"}, at...)...)
	if len(hook.ID) != 36 || !strings.HasPrefix(hook.Secret, "whsec_") {
		t.Fatalf("endpoint = %+v, want a UUID and a secret that begins with whsec_", hook)
	}

	var policy struct {
		Placement string
		Box       []float64 `json:"placement_box"`
		Active    bool      `json:"refuse_active"`
	}
	runJSON(t, "", &policy, append([]string{"institution", "set", "--placement", "exact", "--placement-box", "0.1,0.1,0.3,0.2", "--refuse-active"}, at...)...)
	if policy.Placement != "exact" || len(policy.Box) != 4 || !policy.Active {
		t.Fatalf("policy = %+v, want exact with a box, and refuse_active", policy)
	}
	runJSON(t, "", &policy, append([]string{"institution", "set", "--placement", "strip"}, at...)...)
	if policy.Placement != "strip" || policy.Box != nil || !policy.Active {
		t.Fatalf("policy = %+v, want strip without a box and with refuse_active unchanged", policy)
	}
}

func TestPublicProfile(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	createInstitution(t, dir)
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
		LinkedIn string
		Logo     string `json:"logo_sha256"`
		Colour   string
	}
	set := []string{"institution", "set", "--data", dir, "--institution", "northwest-university"}
	var got public
	runJSON(t, "", &got, set...)
	if got != (public{}) {
		t.Errorf("default profile = %+v, want an empty profile", got)
	}
	runJSON(t, "", &got, append(set, "--public-image", "--public-download", "--contact", "r@example.org", "--linkedin", "1234567", "--logo", logo, "--color", "#1A237E")...)
	if got.Colour != "#1a237e" || !got.Image || !got.Download || got.Contact != "r@example.org" || got.LinkedIn != "1234567" || len(got.Logo) != 64 {
		t.Errorf("profile = %+v, want all given values, with the color in lower case", got)
	}
	if code, _, errs := certvault(t, "", append(set, "--hide-name")...); code != exitRefused || !strings.Contains(errs, "show the name") {
		t.Errorf("a hidden name with a public file: exit code = %d, want a refusal with the advice to show the name: %s", code, errs)
	}
	var hidden public
	runJSON(t, "", &hidden, append(set, "--hide-name", "--no-public-image", "--no-public-download", "--logo", "", "--colour", "")...)
	if hidden != (public{Hide: true, Contact: "r@example.org", LinkedIn: "1234567"}) {
		t.Errorf("profile with a hidden name = %+v, want only hide_name, the contact and the LinkedIn page", hidden)
	}
}

func TestMailAndRetentionSettings(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	createInstitution(t, dir)
	set := []string{"institution", "set", "--data", dir, "--institution", "northwest-university"}
	type settings struct {
		Sender string                                         `json:"mail_sender"`
		Reply  string                                         `json:"reply_to"`
		Tag    string                                         `json:"mail_language"`
		Words  map[string]struct{ Paragraph, Closing string } `json:"mail_words"`
	}
	var a settings
	runJSON(t, "", &a, append(set, "--mail-language", "de", "--mail-sender", "Registrar", "--reply-to", "registry@example.org",
		"--mail-paragraph", "Liebe {name}!", "--mail-closing", "Ihr Büro")...)
	if a.Sender != "Registrar" || a.Reply != "registry@example.org" || a.Tag != "de" || a.Words["de"].Paragraph != "Liebe {name}!" || a.Words["de"].Closing != "Ihr Büro" {
		t.Errorf("settings = %+v, want all given values and the texts in de", a)
	}
	runJSON(t, "", &a, append(set, "--words-language", "en", "--mail-closing", "Your office")...)
	if len(a.Words) != 2 || a.Words["en"].Closing != "Your office" || a.Words["de"].Closing != "Ihr Büro" {
		t.Errorf("settings after a change in another language = %+v, want the texts in de and en", a)
	}
	var retention struct {
		Failed  int `json:"keep_failed"`
		Revoked int `json:"keep_revoked"`
		Mail    int `json:"keep_mail"`
	}
	runJSON(t, "", &retention, append(set, "--keep-failed", "90", "--keep-mail", "365")...)
	if retention.Failed != 90 || retention.Revoked != 0 || retention.Mail != 365 {
		t.Errorf("retention = %+v, want 90 days for failed certificates and 365 for mail", retention)
	}
	runJSON(t, "", &retention, append(set, "--keep-failed", "0")...)
	if retention.Failed != 0 || retention.Mail != 365 {
		t.Errorf("retention = %+v, want 0 days for failed certificates and 365 for mail", retention)
	}
	if code, _, errs := certvault(t, "", append(set, "--mail-paragraph", "Dear {first_name}")...); code != exitRefused || !strings.Contains(errs, "{first_name}") {
		t.Errorf("an unknown placeholder: exit code = %d, want a refusal that names the placeholder: %s", code, errs)
	}
}

// TestSettingsAreSavedTogether checks that institution set changes no setting and adds no entry to the
// audit log if one of the values is rejected.
func TestSettingsAreSavedTogether(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	createInstitution(t, dir)
	set := []string{"institution", "set", "--data", dir, "--institution", "northwest-university"}
	entries := func() int {
		code, out, errs := certvault(t, "", "audit", "export", "--data", dir, "--institution", "northwest-university", "--action", "institution", "--format", "jsonl")
		if code != exitDone {
			t.Fatal(errs)
		}
		return strings.Count(out, "\n")
	}
	var before, after map[string]any
	runJSON(t, "", &before, set...)
	recorded := entries()
	good := []string{
		"--placement", "top-left", "--refuse-active", "--contact", "r@example.org", "--mail-language", "de", "--mail-sender", "Registrar",
		"--mail-closing", "Ihr Büro", "--keep-failed", "90", "--color", "#1a237e",
	}
	for want, bad := range map[string][]string{
		"--color:": {"--color", "#ffcc00"}, "--keep-mail:": {"--keep-mail", "3"}, "--mail-paragraph: {first_name}": {"--mail-paragraph", "{first_name}"},
		"--mail-closing:": {"--mail-closing", "{last_name}"}, "--words-language:": {"--words-language", "xx"},
		"--reply-to:": {"--reply-to", "invalid"}, "--hide-name:": {"--hide-name", "--public-image"}, "--placement-page:": {"--placement-page", "0"},
	} {
		args := append(append(slices.Clone(set), good...), bad...)
		if code, _, errs := certvault(t, "", args...); code != exitRefused || !strings.Contains(errs, want) {
			t.Errorf("%v: exit code = %d, want %d and %q: %s", bad, code, exitRefused, want, errs)
		}
		after = nil
		runJSON(t, "", &after, set...)
		if now := entries(); !reflect.DeepEqual(after, before) || now != recorded {
			t.Errorf("%v: settings = %v with %d new entries in the log, want %v and no new entries", bad, after, now-recorded, before)
		}
	}
	runJSON(t, "", &after, append(set, good...)...)
	if now := entries(); after["contact"] != "r@example.org" || after["colour"] != "#1a237e" || now <= recorded {
		t.Errorf("settings = %v with %d entries in the log, want the given values and more than %d entries", after, now, recorded)
	}
}

func TestExitCodesAndMessages(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	createInstitution(t, dir)
	create := []string{"institution", "create", "--data", dir, "--name", "Other", "--owner-email", "o@example.org", "--owner-name", "O", "--owner-password-stdin"}
	for name, tc := range map[string]struct {
		args []string
		code int
		want string
	}{
		"unknown command":     {[]string{"unknown"}, exitUsage, "unexpected argument"},
		"missing flag":        {[]string{"token", "create", "--data", dir}, exitUsage, "--institution"},
		"used prefix":         {append(create, "--prefix", "nwu"), exitRefused, "belongs to another institution"},
		"malformed prefix":    {append(create, "--prefix", "N-U"), exitRefused, "--prefix: The prefix must have 2 to 10 characters of A-Z"},
		"unknown slug":        {[]string{"token", "list", "--data", dir, "--institution", "unknown"}, exitRefused, "There is no such institution"},
		"unknown permission":  {[]string{"token", "create", "--data", dir, "--institution", "northwest-university", "--name", "x", "--permission", "all"}, exitRefused, "certificate-vault:create"},
		"unknown event":       {[]string{"webhook", "create", "--data", dir, "--institution", "northwest-university", "--url", "https://a.example", "--event", "x"}, exitRefused, "certificate_application.created"},
		"unknown token":       {[]string{"token", "revoke", "--data", dir, "--institution", "northwest-university", "77"}, exitRefused, "no such token"},
		"expiry in the past":  {[]string{"token", "create", "--data", dir, "--institution", "northwest-university", "--name", "x", "--permission", "certificate-vault:list", "--expires", "2020-01-01"}, exitRefused, "future"},
		"malformed expiry":    {[]string{"token", "create", "--data", dir, "--institution", "northwest-university", "--name", "x", "--permission", "certificate-vault:list", "--expires", "soon"}, exitUsage, "90d"},
		"malformed box":       {[]string{"institution", "set", "--data", dir, "--institution", "northwest-university", "--placement-box", "1,2"}, exitUsage, "X0,Y0,X1,Y1"},
		"reversed box":        {[]string{"institution", "set", "--data", dir, "--institution", "northwest-university", "--placement", "exact", "--placement-box", "0.5,0,0.4,1"}, exitRefused, "x0 < x1"},
		"colour too light":    {[]string{"institution", "set", "--data", dir, "--institution", "northwest-university", "--colour", "#ffcc00"}, exitRefused, "1.5:1"},
		"retention too short": {[]string{"institution", "set", "--data", dir, "--institution", "northwest-university", "--keep-failed", "7"}, exitRefused, "from 30 to 3653"},
		"unknown certificate": {[]string{"erase", "--data", dir, "--certificate", "NWU-0000000000000000"}, exitRefused, "installation"},
		"no certificate":      {[]string{"erase", "--data", dir}, exitUsage, "--certificate"},
		"negative time":       {[]string{"serve", "--data", dir, "--blob-keep=-1d"}, exitUsage, "14d"},
		"invalid base URL":    {[]string{"serve", "--data", dir, "--base-url", "http://x"}, exitUsage, "https"},
	} {
		code, out, errs := certvault(t, "correct horse\n", tc.args...)
		if code != tc.code || !strings.Contains(errs, tc.want) || out != "" {
			t.Errorf("%s: exit code = %d, stdout = %q, stderr = %q, want exit code %d and %q", name, code, out, errs, tc.code, tc.want)
		}
	}
}

func TestHelp(t *testing.T) {
	t.Parallel()
	for _, args := range [][]string{{}, {"token", "create"}, {"backup"}} {
		_, want, _ := certvault(t, "", append(args, "--help")...)
		code, out, errs := certvault(t, "", append([]string{"help"}, args...)...)
		if code != exitDone || out != want || errs != "" || !strings.Contains(out, "Usage: certvault") {
			t.Errorf("help %v: exit code = %d, stdout = %q, stderr = %q, want the output of --help", args, code, out, errs)
		}
	}
	if code, _, errs := certvault(t, "", "help", "unknown"); code != exitUsage || !strings.Contains(errs, "unknown") {
		t.Errorf("help of an unknown command: exit code = %d, stderr = %q, want exit code %d", code, errs, exitUsage)
	}
}

func TestDoctor(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	code, out, _ := certvault(t, "", "doctor", "--data", dir+"/missing")
	if code != exitRefused || !strings.Contains(out, "WRONG") {
		t.Fatalf("missing folder: exit code = %d, want a refusal and a finding with WRONG: %s", code, out)
	}
	createInstitution(t, dir+"/vault")
	code, out, errs := certvault(t, "", "doctor", "--data", dir+"/vault")
	if code != exitDone || !strings.Contains(out, "database: sqlite") {
		t.Fatalf("new vault: exit code = %d, want 0 and the finding database: sqlite: %s%s", code, out, errs)
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
			t.Errorf("parseEnd(%q) = %v, %v, want %v", in, got, err, want)
		}
	}
	for _, in := range []string{"0d", "-1d", "1", "d", "2026-02-30", "tomorrow", "-5s", "999999d"} {
		if got, err := parseEnd(in, now); err == nil {
			t.Errorf("parseEnd(%q) = %v, want an error", in, got)
		}
	}
	if got, err := parseEnd("", now); got != nil || err != nil {
		t.Errorf("parseEnd of an empty text = %v, %v, want nil", got, err)
	}
}

func TestParseSince(t *testing.T) {
	t.Parallel()
	now := time.Date(2026, 7, 10, 12, 0, 0, 0, time.UTC)
	for text, want := range map[string]time.Time{
		"7d":                        now.AddDate(0, 0, -7),
		"24h":                       now.Add(-24 * time.Hour),
		"2026-07-01":                time.Date(2026, 7, 1, 0, 0, 0, 0, time.UTC),
		"2026-07-01T10:30:00+02:00": time.Date(2026, 7, 1, 8, 30, 0, 0, time.UTC),
	} {
		if got, err := parseSince(text, now); err != nil || !got.Equal(want) {
			t.Errorf("parseSince(%q) = %v, %v, want %v", text, got, err, want)
		}
	}
	for _, bad := range []string{"", "yesterday", "-1h", "2026-13-01", "0d", "2026-07-11", "2026-07-10T12:00:01Z"} {
		if got, err := parseSince(bad, now); err == nil {
			t.Errorf("parseSince(%q) = %v, want an error", bad, got)
		}
	}
}

// TestWebhookAdministration checks the JSON output of the webhook commands, and that they reject invalid
// arguments.
func TestWebhookAdministration(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	createInstitution(t, dir)
	at := []string{"--data", dir, "--institution", "northwest-university"}
	var hook struct{ ID, Secret string }
	runJSON(t, "", &hook, append([]string{"webhook", "create", "--url", "https://hooks.example.org/x", "--header", "X-Key: a, b: c"}, at...)...)
	var list []struct {
		ID, URL, Status string
		Events          []string
		Waiting         int
	}
	runJSON(t, "", &list, append([]string{"webhook", "list"}, at...)...)
	if len(list) != 1 || list[0].ID != hook.ID || list[0].Status != "active" || list[0].Events == nil {
		t.Fatalf("list = %+v, want the active endpoint with a list of events", list)
	}
	var changed struct{ ID, Status string }
	runJSON(t, "", &changed, append([]string{"webhook", "pause", hook.ID}, at...)...)
	if changed.Status != "paused" {
		t.Errorf("status = %s, want paused", changed.Status)
	}
	runJSON(t, "", &changed, append([]string{"webhook", "resume", hook.ID}, at...)...)
	var rotated struct {
		Secret string
		Until  time.Time `json:"overlap_until"`
	}
	runJSON(t, "", &rotated, append([]string{"webhook", "rotate", hook.ID}, at...)...)
	if rotated.Secret == hook.Secret || !strings.HasPrefix(rotated.Secret, "whsec_") || time.Until(rotated.Until) < 23*time.Hour {
		t.Errorf("result of rotate = %+v, want another secret and an overlap of about 24 hours", rotated)
	}
	for name, tc := range map[string]struct {
		args []string
		code int
		want string
	}{
		"rotated again":       {[]string{"rotate", hook.ID}, exitRefused, "Promote"},
		"resumed again":       {[]string{"resume", hook.ID}, exitRefused, "already active"},
		"reserved header":     {[]string{"create", "--url", "https://a.example", "--header", "X-Webhook-ID: x"}, exitRefused, "is reserved"},
		"invalid header name": {[]string{"create", "--url", "https://a.example", "--header", "invalid name: x"}, exitRefused, "not a valid header name"},
		"unknown endpoint":    {[]string{"pause", "00000000-0000-0000-0000-000000000000"}, exitRefused, "There is no such endpoint"},
		"unknown delivery":    {[]string{"redeliver", "1"}, exitRefused, "There is no such delivery"},
		"unknown status":      {[]string{"log", hook.ID, "--status", "lost"}, exitRefused, "pending, delivered or exhausted"},
		"invalid time":        {[]string{"replay", hook.ID, "--since", "yesterday"}, exitUsage, "--since"},
		"unknown event":       {[]string{"test", hook.ID, "--event", "x"}, exitRefused, "There is no event"},
	} {
		code, _, errs := certvault(t, "", append(append([]string{"webhook"}, tc.args...), at...)...)
		if code != tc.code || !strings.Contains(errs, tc.want) {
			t.Errorf("%s: exit code = %d, want %d and %q: %s", name, code, tc.code, tc.want, errs)
		}
	}
}
