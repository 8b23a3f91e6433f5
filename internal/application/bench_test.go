package application_test

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/certvault/certvault/internal/application"
	"github.com/certvault/certvault/internal/cert"
	"github.com/certvault/certvault/internal/db/dbtest"
)

// BenchmarkSubmit measures the submission of an application with a token.
func BenchmarkSubmit(b *testing.B) {
	f := newFixture(b, dbtest.SQLite(b))
	o := f.offer("course")
	var times []time.Duration
	for i := 0; b.Loop(); i++ {
		in := application.Submission{
			Institution: f.inst, Offer: o, Creator: cert.Actor{Type: "token", ID: 7, Name: "Portal"}, FullName: "Chi Eze",
			Email: fmt.Sprintf("person-%d@example.org", i), Values: map[string]string{"matric": "M-1001"},
		}
		began := time.Now()
		_, err := f.Applications.Submit(b.Context(), in)
		times = append(times, time.Since(began))
		f.ok(err)
	}
	slices.Sort(times)
	b.ReportMetric(float64(times[len(times)/2].Microseconds())/1000, "p50-ms")
	b.ReportMetric(float64(times[len(times)*99/100].Microseconds())/1000, "p99-ms")
}
