package bulkclient

import (
	"context"
	"encoding/csv"
	"errors"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/certvault/certvault/client"
)

// bench is a list with its files and a fake vault.
type bench struct {
	*testing.T

	fake *fake
	dir  string
	now  time.Time
	// client is shared by all runs, because it has no state.
	client *client.Client
	last   Progress
}

func newBench(t *testing.T) *bench {
	t.Helper()
	f := newFake(t)
	return &bench{T: t, fake: f, dir: t.TempDir(), now: time.Now(), client: f.client()}
}

func (b *bench) file(name, content string) {
	b.Helper()
	if err := os.WriteFile(filepath.Join(b.dir, name), []byte(content), 0o600); err != nil {
		b.Fatal(err)
	}
}

// run uploads a list to the vault.
func (b *bench) run(ctx context.Context, list string) ([]*Result, error) {
	b.Helper()
	b.file("class.csv", list)
	read, err := Read(strings.NewReader(list))
	if err != nil {
		b.Fatal(err)
	}
	r := &Run{
		Client: b.client, Vault: b.fake.server.URL, List: read, File: filepath.Join(b.dir, "class.csv"), Dir: b.dir,
		Now: func() time.Time { return b.now }, Report: func(p Progress) { b.last = p },
	}
	return r.Do(ctx)
}

func (b *bench) mustRun(list string) []*Result {
	b.Helper()
	results, err := b.run(b.Context(), list)
	if err != nil {
		b.Fatal(err)
	}
	return results
}

func summary(results []*Result) string {
	var lines []string
	for _, r := range results {
		lines = append(lines, fmt.Sprintf("%d %s %s", r.Row, r.Status, r.Error))
	}
	return strings.Join(lines, "\n")
}

const header = "title,full_name,email,file,issue_date\n"

func TestListIsUploaded(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	b.file("a.pdf", "good a")
	b.file("b.pdf", "good b")
	b.file("bad.pdf", "bad")
	b.file("empty.pdf", "")
	b.file("notes.txt", "text")
	results := b.mustRun(header +
		"BSc,Ada,ada@example.org,a.pdf,2026-06-30\n" +
		"BSc,Grace,grace@example.org,a.pdf,2026-06-30\n" +
		"BSc,Fail Fred,fred@example.org,b.pdf,2026-06-30\n" +
		"BSc,Ada again,ADA@example.org,b.pdf,2026-06-30\n" +
		"BSc,Wrong,wrong@,b.pdf,2026-06-30\n" +
		"BSc,Damaged,d@example.org,bad.pdf,2026-06-30\n" +
		"BSc,Missing,m@example.org,none.pdf,2026-06-30\n" +
		"BSc,Empty,e@example.org,empty.pdf,2026-06-30\n" +
		"BSc,Text,x@example.org,notes.txt,2026-06-30\n" +
		"BSc,Late,l@example.org,a.pdf,2026-02-30\n")
	want := `2 approved 
3 approved 
4 failed The processing failed.
5 rejected The certificate already exists.
6 refused The applicant email field must be a valid email address.
7 refused The file is not a PDF.
8 refused The file does not exist.
9 refused The file is empty.
10 refused The file must be a PDF, JPG, JPEG or PNG.
11 refused The issue_date must be an existing date in the form YYYY-MM-DD.`
	if got := summary(results); got != want {
		t.Errorf("results:\n%s\nwant:\n%s", got, want)
	}
	if results[0].UUID == "" || results[0].ReferenceID == "" {
		t.Errorf("the approved row has no UUID or reference id: %+v", results[0])
	}
	if b.fake.uploads != 3 || b.fake.entries != 4 {
		t.Errorf("%d files uploaded and %d entries accepted, want 3 and 4", b.fake.uploads, b.fake.entries)
	}
	if b.last != (Progress{Total: 10, Stored: 10, Submitted: 10, Done: 10}) {
		t.Errorf("last progress = %+v, want 10 of 10 rows", b.last)
	}
}

// classOf returns a list of n rows, each with its own file.
func (b *bench) classOf(n int) string {
	b.Helper()
	var s strings.Builder
	s.WriteString(header)
	for i := range n {
		b.file(fmt.Sprintf("%d.pdf", i), fmt.Sprintf("good %d", i))
		fmt.Fprintf(&s, "BSc,Person %d,p%d@example.org,%d.pdf,2026-06-30\n", i, i, i)
	}
	return s.String()
}

func TestRunContinuesAfterAnInterruption(t *testing.T) {
	t.Parallel()
	for name, interrupt := range map[string]func(b *bench, stop func()){
		"between two files": func(b *bench, stop func()) {
			n := 0
			b.fake.before = func(r *http.Request) int {
				if strings.HasSuffix(r.URL.Path, "upload-file") {
					if n++; n == 5 {
						stop()
					}
				}
				return 0
			}
		},
		"after a batch was accepted and before its response": func(b *bench, stop func()) {
			b.fake.dropResponse = func(r *http.Request) bool {
				if strings.HasSuffix(r.URL.Path, "bulk") {
					stop()
					return true
				}
				return false
			}
		},
		"while a batch is processed": func(b *bench, stop func()) {
			b.fake.before = func(r *http.Request) int {
				if r.Method == http.MethodGet {
					stop()
					return 503
				}
				return 0
			}
		},
		"when the token expires": func(b *bench, _ func()) {
			n := 0
			b.fake.before = func(*http.Request) int {
				if n++; n > 7 {
					return 401
				}
				return 0
			}
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			b := newBench(t)
			list := b.classOf(20)
			ctx, stop := context.WithCancel(t.Context())
			interrupt(b, stop)
			if _, err := b.run(ctx, list); err == nil {
				t.Fatal("the run was not interrupted")
			}
			stop()
			b.fake.locked(func() { b.fake.before, b.fake.dropResponse = nil, nil })
			results := b.mustRun(list)
			if n := Count(results)[Approved]; n != 20 {
				t.Errorf("%d rows approved, want 20\n%s", n, summary(results))
			}
			// Only the files that were being uploaded at the interruption may be stored twice.
			uploads, entries, submissions := b.fake.done()
			if entries != 20 || uploads > 20+parallel {
				t.Errorf("%d entries accepted and %d files stored, want 20 entries and at most %d files", entries, uploads, 20+parallel)
			}
			again := b.mustRun(list)
			if u, _, s := b.fake.done(); summary(again) != summary(results) || u != uploads || s != submissions {
				t.Errorf("a third run uploaded or submitted again: %s", summary(again))
			}
		})
	}
}

func TestOnlyNewRowsAreSubmitted(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	list := b.classOf(3)
	b.mustRun(list)
	b.file("new.pdf", "good new")
	rows := strings.SplitAfter(list, "\n")
	grown := rows[0] + "BSc,New,new@example.org,new.pdf,2026-06-30\n" + strings.Join(rows[2:], "")
	results := b.mustRun(grown)
	if summary(results) != "2 approved \n3 approved \n4 approved " || b.fake.entries != 4 || b.fake.uploads != 4 {
		t.Errorf("results:\n%s\n%d entries and %d files, want 3 approved rows, 4 entries and 4 files", summary(results), b.fake.entries, b.fake.uploads)
	}
}

func TestRemovedFileIsStoredAgain(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	list := b.classOf(3)
	b.fake.before = func(r *http.Request) int {
		if strings.HasSuffix(r.URL.Path, "bulk") {
			return 403
		}
		return 0
	}
	if _, err := b.run(t.Context(), list); err == nil {
		t.Fatal("the run was not interrupted")
	}
	b.fake.locked(func() {
		b.fake.before = nil
		clear(b.fake.files)
	})
	if results := b.mustRun(list); Count(results)[Approved] != 3 || b.fake.uploads != 6 {
		t.Errorf("results:\n%s\n%d files stored, want 3 approved rows and 6 files", summary(results), b.fake.uploads)
	}

	b = newBench(t)
	list = b.classOf(2)
	b.fake.before = func(r *http.Request) int {
		if strings.HasSuffix(r.URL.Path, "bulk") {
			clear(b.fake.files) // the vault removes all files
		}
		return 0
	}
	results := b.mustRun(list)
	if summary(results) != "2 refused The selected file is unknown.\n3 refused The selected file is unknown." {
		t.Errorf("results:\n%s\nwant 2 refused rows with an unknown file", summary(results))
	}
}

// A row with a removed file and another problem is refused, and counts as stored.
func TestRowWithRemovedFileIsRefused(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	b.file("a.pdf", "good a")
	b.file("b.pdf", "good b")
	isFirst := true
	b.fake.before = func(r *http.Request) int {
		if isFirst && strings.HasSuffix(r.URL.Path, "bulk") {
			isFirst = false
			clear(b.fake.files) // the vault removes all files
		}
		return 0
	}
	results := b.mustRun(header + "BSc,Ada,ada@example.org,a.pdf,2026-06-30\nBSc,Ben,ben@,b.pdf,2026-06-30\n")
	if summary(results) != "2 approved \n3 refused The applicant email field must be a valid email address." || b.last != (Progress{Total: 2, Stored: 2, Submitted: 2, Done: 2}) {
		t.Errorf("results:\n%s\nprogress = %+v, want one approved and one refused row, and each number of the progress 2", summary(results), b.last)
	}
}

func TestExpiredFilesAreStoredAgain(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	list := b.classOf(2)
	b.fake.before = func(r *http.Request) int {
		if strings.HasSuffix(r.URL.Path, "bulk") {
			return 403
		}
		return 0
	}
	if _, err := b.run(t.Context(), list); err == nil {
		t.Fatal("the run was not interrupted")
	}
	b.now = b.now.Add(fileLifetime)
	// The next run first repeats the unfinished batch with its key, and then submits a new batch.
	b.fake.locked(func() {
		b.fake.before = nil
		clear(b.fake.files)
	})
	if results := b.mustRun(list); Count(results)[Approved] != 2 || b.fake.uploads != 4 {
		t.Errorf("results:\n%s\n%d files stored, want 2 approved rows and 4 files", summary(results), b.fake.uploads)
	}
}

func TestLongListIsSplitIntoBatches(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	b.file("one.pdf", "good")
	var s strings.Builder
	s.WriteString(header)
	for i := range 12_000 {
		fmt.Fprintf(&s, "BSc,Person %d,p%d@example.org,one.pdf,2026-06-30\n", i, i)
	}
	results := b.mustRun(s.String())
	if n := Count(results)[Approved]; n != 12_000 || b.fake.submissions != 3 || b.fake.uploads != 1 {
		t.Errorf("%d rows approved in %d batches with %d files, want 12000 rows in 3 batches with 1 file", n, b.fake.submissions, b.fake.uploads)
	}
}

func TestFilesOutsideTheFolderAreNotUploaded(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	outside := filepath.Join(filepath.Dir(b.dir), "secret.pdf")
	if err := os.WriteFile(outside, []byte("good secret"), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink(outside, filepath.Join(b.dir, "link.pdf")); err != nil {
		t.Fatal(err)
	}
	var s strings.Builder
	s.WriteString(header)
	for i, name := range []string{"../secret.pdf", `..\secret.pdf`, outside, "link.pdf", "x/../../secret.pdf", `C:\secret.pdf`, "."} {
		fmt.Fprintf(&s, "BSc,P,p%d@example.org,%s,2026-06-30\n", i, name)
	}
	results := b.mustRun(s.String())
	if n := Count(results)[Refused]; n != len(results) || b.fake.uploads != 0 {
		t.Errorf("results:\n%s\n%d files stored, want only refused rows and no file", summary(results), b.fake.uploads)
	}
}

func TestSimilarFileNamesAreFound(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	b.file("Jose\u0301.PDF", "good") // as macOS stores it
	b.file("Twice.pdf", "good")
	b.file("TWICE.pdf", "good")
	results := b.mustRun(header + "BSc,José,j@example.org,jos\u00e9.pdf,\nBSc,T,t@example.org,twice.pdf,\n")
	if summary(results) != "2 approved \n3 refused The file does not exist." {
		t.Errorf("results:\n%s\nwant row 2 approved and row 3 refused", summary(results))
	}
}

func TestOnlyOneRunAtATime(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	list := b.classOf(1)
	b.file("class.csv", list)
	j, err := openJournal(filepath.Join(b.dir, "class.csv"), b.fake.server.URL)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := b.run(t.Context(), list); !errors.Is(err, ErrBusy) {
		t.Errorf("a second run: error = %v, want ErrBusy", err)
	}
	if err := j.close(); err != nil {
		t.Fatal(err)
	}
	b.mustRun(list)
}

func TestTruncatedDamagedAndForeignJournals(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	list := b.classOf(2)
	b.mustRun(list)
	journal := filepath.Join(b.dir, "class.csv.journal")
	whole, err := os.ReadFile(journal)
	if err != nil {
		t.Fatal(err)
	}
	if strings.Contains(string(whole), "example.org,") || strings.Contains(string(whole), "p0@") {
		t.Error("the journal contains e-mail addresses")
	}
	// A crash can leave an incomplete last line.
	if err := os.WriteFile(journal, whole[:len(whole)-5], 0o600); err != nil {
		t.Fatal(err)
	}
	if results := b.mustRun(list); Count(results)[Approved] != 2 || b.fake.entries != 2 {
		t.Errorf("results:\n%s\n%d entries, want 2", summary(results), b.fake.entries)
	}
	if err := os.WriteFile(journal, []byte("{\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := b.run(t.Context(), list); err == nil || !strings.Contains(err.Error(), "damaged") {
		t.Errorf("a damaged journal: error = %v, want an error that says damaged", err)
	}
	if err := os.WriteFile(journal, []byte(`{"vault":"https://other.example.org"}`+"\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := b.run(t.Context(), list); err == nil || !strings.Contains(err.Error(), "other.example.org") {
		t.Errorf("a journal of another vault: error = %v, want an error that names the vault", err)
	}
}

func TestWriteResultsEscapesFormulas(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "results.csv")
	if err := WriteResults(path, []*Result{
		{Row: 2, Status: Approved, UUID: "u", ReferenceID: "NWU-1"}, {Row: 3, Status: Refused, Error: `=HYPERLINK("x"), a "quote"`},
	}); err != nil {
		t.Fatal(err)
	}
	file, err := os.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	defer file.Close()
	rows, err := csv.NewReader(file).ReadAll()
	if err != nil || len(rows) != 3 || strings.Join(rows[0], ",") != "row,status,uuid,reference_id,error" || strings.Join(rows[1], ",") != "2,approved,u,NWU-1," ||
		rows[2][4] != `'=HYPERLINK("x"), a "quote"` {
		t.Errorf("the result file has the rows %q, %v, want a header and 2 rows, with the formula escaped", rows, err)
	}
	if err := WriteResults(filepath.Join(path, "no", "folder"), nil); err == nil {
		t.Error("WriteResults returned no error for a missing folder")
	}
}
