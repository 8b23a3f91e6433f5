package sheet

import (
	"encoding/csv"
	"errors"
	"strings"
	"testing"
)

func TestNoCellIsAFormula(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]string{
		"":                     "",
		"Zoë Müller":           "Zoë Müller",
		"a=b+c":                "a=b+c",
		"3-4":                  "3-4",
		`=HYPERLINK("x","y")`:  `'=HYPERLINK("x","y")`,
		"+43 1 234":            "'+43 1 234",
		"-1":                   "'-1",
		"@SUM(A1)":             "'@SUM(A1)",
		"\t=1":                 "'\t=1",
		"\r=1":                 "'\r=1",
		"\n=1":                 "'\n=1",
		"  =1":                 "'  =1",
		"\u00a0=1":             "'\u00a0=1",
		"＝1":                   "'＝1",
		"\ttext":               "'\ttext",
		"'=1":                  "'=1",
		"mail@example.org":     "mail@example.org",
		"2026-06-30T10:00:00Z": "2026-06-30T10:00:00Z",
	} {
		if got := EscapeFormula(text); got != want {
			t.Errorf("EscapeFormula(%q) = %q, want %q", text, got, want)
		}
	}
}

func TestWrittenRowsReadBack(t *testing.T) {
	t.Parallel()
	var b strings.Builder
	w := NewWriter(&b)
	rows := [][]string{{"name", "details"}, {"Zoë, “the first”", "line one\nline \"two\""}, {"=1+1", ""}}
	for _, row := range rows {
		if err := w.Write(row...); err != nil {
			t.Fatal(err)
		}
	}
	if err := w.Flush(); err != nil {
		t.Fatal(err)
	}
	text, ok := strings.CutPrefix(b.String(), "\uFEFF")
	if !ok || !strings.Contains(text, "\r\n") {
		t.Fatalf("got %q, want a byte order mark and CRLF", b.String())
	}
	got, err := csv.NewReader(strings.NewReader(text)).ReadAll()
	if err != nil || len(got) != 3 || got[1][0] != rows[1][0] || got[1][1] != rows[1][1] || got[2][0] != "'=1+1" {
		t.Errorf("records = %q, error = %v; want the 3 written rows, with an apostrophe before the formula", got, err)
	}
}

// A spreadsheet that separates cells by semicolons or tabs finds no additional cells.
func TestEveryCellIsQuoted(t *testing.T) {
	t.Parallel()
	var b strings.Builder
	w := NewWriter(&b)
	if err := errors.Join(w.Write("a;=1+1", "b\t=1"), w.Flush()); err != nil {
		t.Fatal(err)
	}
	if want := "\uFEFF\"a;=1+1\",\"b\t=1\"\r\n"; b.String() != want {
		t.Errorf("got %q, want %q", b.String(), want)
	}
}

type brokenWriter struct{}

func (brokenWriter) Write([]byte) (int, error) { return 0, errors.New("connection closed") }

func TestFlushReturnsWriteError(t *testing.T) {
	t.Parallel()
	if err := NewWriter(brokenWriter{}).Flush(); err == nil {
		t.Error("Flush() = nil, want the error of the writer")
	}
}
