package template_test

import (
	"fmt"
	"testing"

	"github.com/certvault/certvault/internal/db/dbtest"
	"github.com/certvault/certvault/internal/design"
	"github.com/certvault/certvault/internal/template"
	"github.com/certvault/certvault/internal/vaulttest"
)

// BenchmarkCheck checks 10,000 entries with texts in many writing systems. Each entry has a different
// name, address and details.
func BenchmarkCheck(b *testing.B) {
	v := vaulttest.New(b, dbtest.SQLite(b), vaulttest.DrawTemplates)
	inst := v.Institution("NWU", "Northern & Western University")
	samples := design.Samples()
	const rows = 10_000
	entries := make([]template.Entry, rows)
	for i := range entries {
		s := samples[i%len(samples)].Values
		entries[i] = template.Entry{FullName: fmt.Sprintf("%s %d", s.Name, i), Email: fmt.Sprintf("p%d@example.org", i), Title: s.Title, Details: fmt.Sprint(s.Details, " ", i), IssueDate: s.IssueDate}
	}
	for _, name := range []string{"meridian", "heritage"} {
		t := v.Template(inst, name, name)
		b.Run(name, func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				problems, err := v.Templates.Check(b.Context(), inst, t.UUID, entries)
				ok(b, err)
				b.ReportMetric(float64(len(problems)), "problems")
			}
			b.ReportMetric(b.Elapsed().Seconds()/float64(b.N), "s/10000rows")
		})
	}
}
