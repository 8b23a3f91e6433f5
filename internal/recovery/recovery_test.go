package recovery_test

import (
	"strings"
	"testing"
	"time"

	"github.com/certvault/certvault/internal/recovery"
)

const (
	masterKey = "0123456789abcdef00112233445566778899aabbccddeeff0f1e2d3c4b5a6978"
	identity  = "AGE-SECRET-KEY-1GFPYYSJZGFPYYSJZGFPYYSJZGFPYYSJZGFPYYSJZGFPYYSJZGFPQ4EGAEX"
)

func newSheet(t *testing.T) string {
	t.Helper()
	s := recovery.Sheet{
		Installation: "0199d9a4-6f10-7cc4-b5b2-0c5a2f6d7a01", BaseURL: "https://vault.example", At: time.Date(2026, 3, 4, 5, 6, 0, 0, time.UTC),
		Root: strings.Repeat("AB:", 31) + "CD", MasterKey: masterKey, Identity: identity,
	}
	text, err := s.Text()
	if err != nil {
		t.Fatal(err)
	}
	return text
}

// TestSheetRestoresTheSecrets checks that the sheet fits on a page, and that Parse returns its secrets.
// Spaces, line ends and the case of letters do not matter.
func TestSheetRestoresTheSecrets(t *testing.T) {
	t.Parallel()
	text := newSheet(t)
	for _, want := range []string{"0199d9a4-6f10-7cc4-b5b2-0c5a2f6d7a01", "https://vault.example", "2026-03-04 05:06 UTC", "AB:CD", "certvault key recover"} {
		if !strings.Contains(text, want) {
			t.Errorf("the sheet lacks %q:\n%s", want, text)
		}
	}
	lines := strings.Split(text, "\n")
	for _, line := range lines {
		if len(line) > 85 {
			t.Errorf("a line has %d characters, want at most 85: %s", len(line), line)
		}
	}
	if len(lines) > 50 {
		t.Errorf("the sheet has %d lines, want at most 50", len(lines))
	}
	for name, typed := range map[string]string{
		"as printed": text,
		"lower case": strings.ToLower(text),
		"one space":  strings.ReplaceAll(text, "   ", " "),
		"DOS lines":  strings.ReplaceAll(text, "\n", "\r\n"),
	} {
		key, secret, err := recovery.Parse(typed)
		if err != nil || key != masterKey || secret != identity {
			t.Errorf("%s: Parse = %q, %q, %v; want the secrets of the sheet", name, key, secret, err)
		}
	}
}

// TestTypingErrorsAreFound checks that the error names each line that has a wrong character or the name
// of another line, is too short, is missing, or occurs twice.
func TestTypingErrorsAreFound(t *testing.T) {
	t.Parallel()
	text := newSheet(t)
	var secret []string
	for line := range strings.Lines(text) {
		if len(line) > 2 && (line[0] == 'M' || line[0] == 'K') && line[1] >= '1' && line[1] <= '4' {
			secret = append(secret, line)
		}
	}
	if len(secret) != 8 {
		t.Fatalf("the sheet has %d lines of secrets, want 8:\n%s", len(secret), text)
	}
	check := func(what, typed string, labels ...string) {
		t.Helper()
		_, _, err := recovery.Parse(typed)
		if err == nil {
			t.Errorf("%s: Parse returned no error, want one", what)
			return
		}
		for _, label := range labels {
			if !strings.Contains(err.Error(), "line "+label+" ") {
				t.Errorf("%s: error = %v, want one that names line %s", what, err, label)
			}
		}
		if n := strings.Count(err.Error(), "line "); n != len(labels) {
			t.Errorf("%s: error = %v, want one that names %d lines", what, err, len(labels))
		}
	}
	for _, line := range secret {
		label, rest := line[:2], strings.TrimRight(line[2:], "\n")
		for i, c := range rest {
			if c == ' ' {
				continue
			}
			wrong := '7'
			if c == wrong {
				wrong = '8'
			}
			check("a wrong character", strings.Replace(text, line, label+rest[:i]+string(wrong)+rest[i+1:]+"\n", 1), label)
		}
		check("a missing line", strings.Replace(text, line, "", 1), label)
		check("a missing character", strings.Replace(text, line, line[:len(line)-2]+"\n", 1), label)
		check("a line twice", text+line, label)
	}
	swapped := strings.NewReplacer("M1", "M2", "M2", "M1").Replace(text)
	check("two lines exchanged", swapped, "M1", "M2")
	check("nothing", "", "M1", "M2", "M3", "M4", "K1", "K2", "K3", "K4")
}
