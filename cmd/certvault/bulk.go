package main

import (
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"time"

	"github.com/certvault/certvault/internal/roster"
)

type bulkCommand struct {
	remote

	List    string `arg:"" help:"CSV with title, full_name, email and file." name:"FILE.csv" type:"path"`
	Files   string `help:"Folder of the files that the list names. Default: that of the list." placeholder:"DIR" type:"path"`
	Results string `help:"File for the result of each row. Default: beside the list." placeholder:"FILE" type:"path"`
}

// Help returns the details that do not fit into the one-line help.
func (*bulkCommand) Help() string {
	return `The list is CSV with commas, semicolons or tabs, in UTF-8 or UTF-16; the columns issue_date and details are optional. Run the same command
again after an interruption: it continues where it ended, with the journal beside the list. The results have the status of each row: approved, failed,
rejected (the certificate already exists), refused (the row is invalid) or unfinished.`
}

// bulkAnswer is the result of a list.
type bulkAnswer struct {
	Rows       int    `json:"rows"`
	Approved   int    `json:"approved"`
	Failed     int    `json:"failed"`
	Rejected   int    `json:"rejected"`
	Revoked    int    `json:"revoked"`
	Refused    int    `json:"refused"`
	Unfinished int    `json:"unfinished"`
	Results    string `json:"results"`
}

// Run uploads a list through the interface.
func (b *bulkCommand) Run(c *console) error {
	vault, err := b.connect()
	if err != nil {
		return err
	}
	list, err := b.read(c.stderr)
	if err != nil {
		return &usageError{err}
	}
	progress := newBar(c.stderr)
	run := &roster.Run{
		Client: vault, Vault: strings.TrimRight(b.URL, "/"), List: list, File: b.List, Dir: b.Files, Now: time.Now, Report: report(progress),
	}
	if run.Dir == "" {
		run.Dir = filepath.Dir(b.List)
	}
	if info, err := os.Stat(run.Dir); err != nil || !info.IsDir() {
		return &usageError{fmt.Errorf("--files: there is no folder %s", run.Dir)}
	}
	results, err := run.Do(c.ctx)
	progress.end()
	if results == nil {
		return userError(err)
	}
	path := b.Results
	if path == "" {
		path = strings.TrimSuffix(b.List, filepath.Ext(b.List)) + ".results.csv"
	}
	if e := roster.WriteResults(path, results); e != nil {
		return errors.Join(userError(err), e)
	}
	counts := roster.Count(results)
	answer := bulkAnswer{
		Rows: len(results), Approved: counts[roster.Approved], Failed: counts[roster.Failed], Rejected: counts[roster.Rejected], Revoked: counts[roster.Revoked],
		Refused: counts[roster.Refused], Unfinished: counts[roster.Unfinished], Results: path,
	}
	if e := c.answer(answer, answer.print); e != nil {
		return e
	}
	switch {
	case err != nil:
		return fmt.Errorf("%w; run the same command again to continue", userError(err))
	case answer.Approved != answer.Rows:
		return fmt.Errorf("%d of %d rows did not get a certificate; see %s", answer.Rows-answer.Approved, answer.Rows, path)
	}
	return nil
}

func (a *bulkAnswer) print(w io.Writer) {
	_, _ = fmt.Fprintf(w, "%d approved", a.Approved)
	for _, other := range []struct {
		n    int
		word string
	}{{a.Failed, "failed"}, {a.Rejected, "rejected"}, {a.Revoked, "revoked"}, {a.Refused, "refused"}, {a.Unfinished, "unfinished"}} {
		if other.n > 0 {
			_, _ = fmt.Fprintf(w, ", %d %s", other.n, other.word)
		}
	}
	_, _ = fmt.Fprintf(w, " of %d rows\n%s\n", a.Rows, a.Results)
}

func (b *bulkCommand) read(stderr io.Writer) (_ *roster.List, err error) {
	file, err := os.Open(b.List)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, file.Close()) }()
	list, err := roster.Read(file)
	if err != nil {
		return nil, err
	}
	if len(list.Unused) > 0 {
		_, _ = fmt.Fprintf(stderr, "certvault: these columns are not used: %s\n", strings.Join(list.Unused, ", "))
	}
	return list, nil
}

// report shows a run as a progress bar, whose first half is the storing of the files.
func report(b *bar) func(roster.Progress) {
	if b == nil {
		return nil
	}
	var mu sync.Mutex
	return func(p roster.Progress) {
		mu.Lock()
		defer mu.Unlock()
		b.set(int64(p.Stored+p.Done), int64(2*p.Total), fmt.Sprintf("%d rows: %d stored, %d submitted, %d finished", p.Total, p.Stored, p.Submitted, min(p.Done, p.Total)))
	}
}
