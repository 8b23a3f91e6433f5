package main

import (
	"bytes"
	"encoding/json"
	"errors"
	"strings"
	"testing"
	"unicode"

	"github.com/certvault/certvault/internal/app"
	"github.com/certvault/certvault/internal/audit"
	"github.com/certvault/certvault/internal/config"
	"github.com/certvault/certvault/internal/db"
)

// TestTerminalEscapesInNamesAreNotPrinted checks that commands print no control characters from names
// and URLs, and that a name cannot add a row to the output.
func TestTerminalEscapesInNamesAreNotPrinted(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	createInstitution(t, dir)
	at := []string{"--data", dir, "--institution", "northwest-university"}
	with := func(args ...string) []string { return append(args, at...) }
	for _, args := range [][]string{
		with("token", "create", "--name", "CI", "--permission", "certificate-vault:list"),
		with("member", "add", "--email", "i@example.org", "--name", "Issuer", "--role", "issuer"),
		{"operator", "add", "o@example.org", "--data", dir},
		with("webhook", "create", "--url", "https://hooks.example.org/x"),
	} {
		if code, _, errs := certvault(t, "", args...); code != exitDone {
			t.Fatalf("%v: exit code = %d, want 0: %s", args, code, errs)
		}
	}
	base, err := app.OpenBase(t.Context(), config.Storage{Data: dir}, "")
	if err != nil {
		t.Fatal(err)
	}
	// The names are stored without the checks of the vault, as an older version may have stored them.
	const name = "Evil " + hostileText + "\tcolumn"
	for _, query := range []string{
		`UPDATE institutions SET name = $1`, `UPDATE users SET name = $1`, `UPDATE tokens SET name = $1, creator = $1`, `UPDATE webhook_endpoints SET url = $1`,
	} {
		if _, e := base.DB.Writer().ExecContext(t.Context(), query, name); e != nil {
			err = errors.Join(err, e)
		}
	}
	inst, e := base.Accounts.InstitutionBySlug(t.Context(), "northwest-university")
	if e != nil {
		t.Fatal(e)
	}
	err = errors.Join(err, base.DB.Tx(t.Context(), func(tx *db.Tx) error {
		return audit.RecordTx(t.Context(), tx, audit.Entry{InstitutionID: inst.ID, Action: audit.TokenCreated, Subject: audit.Subject{Type: "token", ID: "1", Name: name}})
	}))
	if err := errors.Join(err, base.DB.Close()); err != nil {
		t.Fatal(err)
	}
	for _, args := range [][]string{
		{"institution", "list", "--data", dir}, {"operator", "list", "--data", dir}, with("token", "list"), with("member", "list"), with("webhook", "list"),
		with("audit", "export"),
	} {
		for _, format := range [][]string{nil, {"--json"}} {
			code, out, errs := certvault(t, "", append(args, format...)...)
			if code != exitDone || !strings.Contains(out, "Evil ") {
				t.Errorf("%v: exit code = %d, want 0 and the name Evil: %s%s", args, code, out, errs)
			}
			if strings.Contains(out, "\nend") {
				t.Errorf("%v: a part of a name begins a line, want the line feed escaped:\n%s", args, out)
			}
			out = strings.ReplaceAll(strings.TrimPrefix(out, "\uFEFF"), "\r\n", "\n")
			if at := strings.IndexFunc(out, func(r rune) bool { return r != '\n' && !unicode.IsPrint(r) }); at >= 0 {
				t.Errorf("%v prints a character that is not printable: %q", args, out[max(0, at-20):min(len(out), at+20)])
			}
		}
	}
}

// TestCSVIsEscapedAcrossWrites checks that csvLines escapes a text that is written byte by byte.
func TestCSVIsEscapedAcrossWrites(t *testing.T) {
	t.Parallel()
	const text = "\uFEFF\"ä\x1b[1m\",\"\uFEFF\u009b\r\"\r\n\"b\"\r\n"
	var out bytes.Buffer
	w := &csvLines{w: &out}
	for i := range len(text) {
		if _, err := w.Write([]byte(text[i : i+1])); err != nil {
			t.Fatal(err)
		}
	}
	if want := "\uFEFF\"ä\\x1b[1m\",\"\\ufeff\\u009b\\r\"\r\n\"b\"\r\n"; out.String() != want {
		t.Errorf("the escaped CSV is %q, want %q", out.String(), want)
	}
}

func TestPlain(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]string{
		"Universität 大学": "Universität 大学",
		"a\x1b[1mb":      `a\x1b[1mb`,
		"a\nb":           `a\nb`,
		"\u202ea\u009bb": `\u202ea\u009bb`,
		"a\xffb":         `a\xffb`,
		"\x7f'\"":        `\x7f'"`,
	} {
		if got := plain(text); got != want {
			t.Errorf("plain(%q) = %q, want %q", text, got, want)
		}
	}
	text, err := json.Marshal("a\x1b\x7f\u202e\u009b\U000e0041b")
	if err != nil {
		t.Fatal(err)
	}
	var decoded string
	escaped := plainJSON(append(text, '\n'))
	if err := json.Unmarshal(escaped, &decoded); err != nil || decoded != "a\x1b\x7f\u202e\u009b\U000e0041b" || !isPlain(strings.TrimSpace(string(escaped))) {
		t.Errorf("plainJSON = %q, decoded %q, %v; want only printable characters and the same text after decoding", escaped, decoded, err)
	}
}
