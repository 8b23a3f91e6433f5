package bench

import (
	"archive/zip"
	"bytes"
	"context"
	"encoding/csv"
	"fmt"
	"mime/multipart"
	"net/http"
	"net/url"
	"os"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/xuri/excelize/v2"

	"github.com/certvault/certvault/test/vault"
)

const (
	// defaultRows is the default number of rows of a bulk upload in the panel. CERTVAULT_BENCH_ROWS
	// sets another number, up to the maximum of 10,000.
	defaultRows = 1000
	// rowsTime is the maximum wait for a step of the bulk upload.
	rowsTime = 25 * time.Minute
	// rowsPoll is the interval at which a page with the progress is requested.
	rowsPoll = 2 * time.Second
)

// BenchmarkRows uploads a workbook, and a ZIP with a file for each row, through the panel, as a browser
// without JavaScript does. It waits until all certificates are approved, and checks that the file of
// results has a unique reference id for each row.
func BenchmarkRows(b *testing.B) {
	rows := defaultRows
	if text := os.Getenv("CERTVAULT_BENCH_ROWS"); text != "" {
		var err error
		if rows, err = strconv.Atoi(text); err != nil {
			b.Fatal(err)
		}
	}
	each(b, func(b *testing.B, database string) {
		v, c := start(b, database)
		warm(b, c)
		session, err := v.SignIn(b.Context(), "owner@nwu.example", vault.OwnerPassword)
		if err != nil {
			b.Fatal(err)
		}
		r := &registrar{b: b, c: c}
		c.Session, c.Token = session, ""
		for round := 0; b.Loop(); round++ {
			b.StopTimer()
			list, archive := r.prepare(rows, round)
			b.StartTimer()
			r.work(rows, list, archive)
		}
		b.ReportMetric(0, "ns/op") // hides the time of a bulk upload
		b.ReportMetric(peakMB(b, v.PID()), "peak-MB")
	})
}

// registrar is a member who makes a bulk upload.
type registrar struct {
	b *testing.B
	c *vault.Client
}

// prepare returns a workbook and a ZIP with the files of its rows.
func (r *registrar) prepare(rows, round int) (list, archive []byte) {
	r.b.Helper()
	f := excelize.NewFile()
	w, err := f.NewStreamWriter("Sheet1")
	if err != nil {
		r.b.Fatal(err)
	}
	var packed bytes.Buffer
	z := zip.NewWriter(&packed)
	set := func(n int, cells ...any) {
		if err := w.SetRow(fmt.Sprintf("A%d", n), cells); err != nil {
			r.b.Fatal(err)
		}
	}
	set(1, "Title", "Full name", "Email", "File", "Issue date")
	for n := 2; n <= rows+1; n++ {
		name := fmt.Sprintf("Graduate %d of %d", n, round)
		set(n, "BSc Physics", name, fmt.Sprintf("graduate.%d.%d@example.org", round, n), fmt.Sprintf("%d.pdf", n), "2026-06-30")
		part, err := z.Create(fmt.Sprintf("class/%d.pdf", n))
		if err != nil {
			r.b.Fatal(err)
		}
		pdf := vault.Sample{Institution: "Northwind University", Title: "Diploma", Name: name, Line: "has completed the course.", Date: "30 June 2026", Width: 842, Height: 595}.PDF()
		if _, err := part.Write(pdf); err != nil {
			r.b.Fatal(err)
		}
	}
	if err := w.Flush(); err != nil {
		r.b.Fatal(err)
	}
	if err := z.Close(); err != nil {
		r.b.Fatal(err)
	}
	var book bytes.Buffer
	if err := f.Write(&book); err != nil {
		r.b.Fatal(err)
	}
	return book.Bytes(), packed.Bytes()
}

// work performs the bulk upload and reports its times. The times list-s, sent-s and unpacked-s begin at the
// start of work. The times checked-s, approved-s and results-s each begin at the end of the previous time.
func (r *registrar) work(rows int, list, archive []byte) {
	r.b.Helper()
	began := time.Now()
	report := func(what string) {
		r.b.ReportMetric(time.Since(began).Seconds(), what)
	}
	a, err := r.c.Get(r.b.Context(), "/panel") // redirects to the only institution
	if err != nil || a.Header.Get("Location") == "" {
		r.b.Fatalf("GET /panel: status = %d, %v; want a redirect", a.Status, err)
	}
	draft := r.post(a.Header.Get("Location")+"/bulk", nil)
	r.send(draft+"/list", "list", "class.xlsx", list)
	r.post(draft+"/columns", url.Values{"title": {"0"}, "full_name": {"1"}, "email": {"2"}, "file": {"3"}, "issue_date": {"4"}})
	report("list-s")
	r.send(draft+"/files", "files", "class.zip", archive)
	report("sent-s")
	r.await("the ZIP is unpacked", draft+"/files", func(page string) bool { return !strings.Contains(page, "Unpacking") })
	report("unpacked-s")
	began = time.Now()
	if page := r.get(draft + "/submit"); !strings.Contains(page, `<button type="submit">Issue`) || strings.Contains(page, "will be rejected") {
		r.b.Fatalf("page = %s, want a button to issue and no row that will be rejected", page)
	}
	report("checked-s")
	began = time.Now()
	r.post(draft+"/submit", nil)
	r.await("all rows are done", draft+"/progress", func(page string) bool { return strings.Contains(page, "rows are processed: ") })
	report("approved-s")
	r.b.ReportMetric(float64(rows)/time.Since(began).Seconds(), "rows/s")
	began = time.Now()
	r.check(rows, r.get(draft+"/results.csv"))
	report("results-s")
}

// check requires that each row is approved and has a unique reference id.
func (r *registrar) check(rows int, text string) {
	r.b.Helper()
	list, err := csv.NewReader(strings.NewReader(strings.TrimPrefix(text, "\uFEFF"))).ReadAll()
	if err != nil || len(list) != rows+1 {
		r.b.Fatalf("results.csv has %d rows, %v; want %d", len(list), err, rows+1)
	}
	seen := map[string]bool{}
	for n, row := range list[1:] {
		if row[5] != strconv.Itoa(n+2) || row[6] != "approved" || row[7] == "" || seen[row[7]] {
			r.b.Fatalf("row of results.csv = %q, want line %d, approved, and a unique reference id", row, n+2)
		}
		seen[row[7]] = true
	}
}

func (r *registrar) get(path string) string {
	r.b.Helper()
	a, err := r.c.Get(r.b.Context(), path)
	if err != nil {
		r.b.Fatal(err)
	}
	if a.Status != http.StatusOK {
		r.b.Fatalf("GET %s: status = %d, want 200", path, a.Status)
	}
	return string(a.Body)
}

// post sends a form and returns the target of the redirect.
func (r *registrar) post(path string, form url.Values) string {
	r.b.Helper()
	a, err := r.c.PostForm(r.b.Context(), path, form)
	if err != nil {
		r.b.Fatal(err)
	}
	if a.Status != http.StatusSeeOther {
		r.b.Fatalf("POST %s: status = %d, want 303", path, a.Status)
	}
	return a.Header.Get("Location")
}

// send sends a form with a file.
func (r *registrar) send(path, field, name string, content []byte) {
	r.b.Helper()
	var body bytes.Buffer
	form := multipart.NewWriter(&body)
	part, err := form.CreateFormFile(field, name)
	if err != nil {
		r.b.Fatal(err)
	}
	if _, err := part.Write(content); err != nil {
		r.b.Fatal(err)
	}
	if err := form.Close(); err != nil {
		r.b.Fatal(err)
	}
	req, err := r.c.Request(r.b.Context(), http.MethodPost, path, &body)
	if err != nil {
		r.b.Fatal(err)
	}
	req.Header.Set("Content-Type", form.FormDataContentType())
	a, err := r.c.Send(req)
	if err != nil {
		r.b.Fatal(err)
	}
	if a.Status != http.StatusSeeOther {
		r.b.Fatalf("POST %s: status = %d, want 303", path, a.Status)
	}
}

// await requests a page until a condition is true.
func (r *registrar) await(what, path string, done func(page string) bool) {
	r.b.Helper()
	ctx, cancel := context.WithTimeout(r.b.Context(), rowsTime)
	defer cancel()
	tick := time.NewTicker(rowsPoll)
	defer tick.Stop()
	for !done(r.get(path)) {
		select {
		case <-tick.C:
		case <-ctx.Done():
			r.b.Fatalf("timeout after %v, want: %s", rowsTime, what)
		}
	}
}
