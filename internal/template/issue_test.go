package template_test

import (
	"errors"
	"fmt"
	"slices"
	"testing"

	"github.com/certvault/certvault/internal/batch"
	"github.com/certvault/certvault/internal/cert"
	"github.com/certvault/certvault/internal/db"
	"github.com/certvault/certvault/internal/db/dbtest"
	"github.com/certvault/certvault/internal/fault"
	"github.com/certvault/certvault/internal/template"
)

func TestIssueIsAllOrNothing(t *testing.T) {
	t.Parallel()
	dbtest.Each(t, func(t *testing.T, d *db.DB) {
		f := newFixture(t, d)
		tmpl := f.publish(t, "Diploma", layout(textField("grade", "Grade {column:Grade}", 400)))
		entries := people("Ada Obi", "Bo Ek", "Cy Day", "Di Eng")
		for i := range entries {
			entries[i].Values = map[string]string{"Grade": "A"}
		}
		entries[1].FullName = "Bo 𓀀"
		entries[2].Values = map[string]string{"grade": "A"}
		entries[3].Email, entries[3].IssueDate = entries[0].Email, "2026-02-30"
		_, err := f.Templates.Issue(t.Context(), tmpl.UUID, template.Issue{Institution: f.inst, Creator: creator, Entries: entries})
		problems, _ := errors.AsType[batch.Problems](err)
		var got []string
		for _, p := range problems {
			got = append(got, fmt.Sprintf("%d %s %s %s %d", p.Entry, p.Field, p.Code, p.Detail, p.Limit))
		}
		want := []string{
			"1 name missing_characters 𓀀 (U+13000) 0", "2 values.grade value_unknown grade 0", "2 values.Grade value_missing {column:Grade} 0",
			"3 issue_date not_date  0", "3 email same_entry  0",
		}
		if !slices.Equal(got, want) {
			t.Errorf("problems = %q, want %q", got, want)
		}
		if _, err := f.Templates.Issue(t.Context(), tmpl.UUID, template.Issue{Institution: f.inst, Creator: creator}); !fault.Is(err, fault.Invalid) {
			t.Errorf("no entries: err = %v, want Invalid", err)
		}
		if _, err := f.Templates.Issue(t.Context(), tmpl.UUID, template.Issue{Institution: f.inst, Creator: creator, Entries: make([]template.Entry, 5001)}); !fault.Is(err, fault.Invalid) {
			t.Errorf("5,001 entries: err = %v, want Invalid", err)
		}
		var n int
		ok(t, d.QueryRowContext(t.Context(), `SELECT count(*) FROM batches`).Scan(&n))
		if n != 0 {
			t.Errorf("%d batches are stored, want 0", n)
		}
		issued, err := f.Templates.ByUUID(t.Context(), f.inst.ID, tmpl.UUID)
		ok(t, err)
		ok(t, f.Templates.CountIssued(t.Context(), f.inst.ID, issued))
		if issued.Issued != 0 {
			t.Errorf("%d certificates were issued, want 0", issued.Issued)
		}
	})
}

// TestDrawConcurrently draws certificates of several templates at the same time.
func TestDrawConcurrently(t *testing.T) {
	t.Parallel()
	f := newFixture(t, dbtest.SQLite(t))
	var certificates []*cert.Certificate
	for i := range 3 {
		tmpl := f.publish(t, fmt.Sprint("Template ", i), layout(textField("x", fmt.Sprint("Text ", i), 500)))
		certificates = append(certificates, f.issue(t, tmpl.UUID, fmt.Sprint("Person ", i))...)
	}
	done := make(chan error)
	for i := range 40 {
		go func() {
			c := certificates[i%len(certificates)]
			d, err := f.Templates.Draw(t.Context(), c)
			if err == nil && d.SHA256 != c.File.SHA256 {
				err = errors.New("the drawing has another digest")
			}
			done <- err
		}()
	}
	for range 40 {
		if err := <-done; err != nil {
			t.Error(err)
		}
	}
}
