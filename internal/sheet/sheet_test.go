package sheet_test

import (
	"bytes"
	"encoding/csv"
	"errors"
	"slices"
	"strings"
	"testing"

	"github.com/certvault/certvault/internal/sheet"
)

func TestSafe(t *testing.T) {
	t.Parallel()
	for cell, want := range map[string]string{
		"": "", "Jane Doe": "Jane Doe", "a=b": "a=b", "1-2": "1-2", "李雷": "李雷", "'quoted": "'quoted",
		`=HYPERLINK("http://x")`: `'=HYPERLINK("http://x")`, "+1": "'+1", "-1": "'-1", "@SUM(A1)": "'@SUM(A1)", "\t=1": "'\t=1", "\r=1": "'\r=1",
		"  =1": "'  =1", "＝1": "'＝1", "＠x": "'＠x", "\u200b=1": "'\u200b=1", "\ufeff=1": "'\ufeff=1", "\u00a0+1": "'\u00a0+1", "\tplain": "'\tplain",
	} {
		if got := sheet.Safe(cell); got != want {
			t.Errorf("Safe(%q) = %q, want %q", cell, got, want)
		}
	}
}

// Whatever is in the cells comes back by the standard's own rules, and no
// separator that another spreadsheet goes by stands outside of quotes.
func TestWriter(t *testing.T) {
	t.Parallel()
	var b bytes.Buffer
	w := sheet.NewWriter(&b)
	lines := [][]string{{"name", "note"}, {`say "hi", now`, "two\nlines"}, {"a;=1+1", "b\t=1"}, {"", "é"}}
	for _, l := range lines {
		if err := w.Write(l...); err != nil {
			t.Fatal(err)
		}
	}
	if err := w.Flush(); err != nil {
		t.Fatal(err)
	}
	text, ok := strings.CutPrefix(b.String(), "\ufeff")
	if !ok {
		t.Error("no mark of UTF-8")
	}
	got, err := csv.NewReader(strings.NewReader(text)).ReadAll()
	if err != nil || !slices.EqualFunc(got, lines, slices.Equal) {
		t.Fatalf("%q, %v", got, err)
	}
	if strings.Contains(strings.ReplaceAll(text, `"a;=1+1"`, ""), ";") {
		t.Error("a semicolon outside of quotes")
	}
}

type full struct{}

func (full) Write([]byte) (int, error) { return 0, errors.New("full") }

func TestWriterTellsOfErrors(t *testing.T) {
	t.Parallel()
	w := sheet.NewWriter(full{})
	if err := errors.Join(w.Write(strings.Repeat("x", 10_000)), w.Flush()); err == nil {
		t.Error("an error was lost")
	}
}
