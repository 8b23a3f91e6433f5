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

	"github.com/certvault/certvault/client"
	"github.com/certvault/certvault/internal/bulkclient"
)

type bulkCommand struct {
	remote

	List    string `arg:"" help:"CSV file with the columns title, full_name, email and file." name:"FILE.csv" type:"path"`
	Files   string `help:"Folder of the files that the list names. Default: the folder of the list." placeholder:"DIR" type:"path"`
	Notify  string `help:"Mail to the recipients: now, never, or a time such as 2026-07-01T09:00:00+02:00, at most a year ahead. Default: now." placeholder:"TIME"`
	Results string `help:"File for the result of each row. Default: FILE.results.csv in the folder of the list." placeholder:"FILE" type:"path"`
}

// Help returns the details that do not fit into the one-line help.
func (*bulkCommand) Help() string {
	return `The list is CSV with commas, semicolons, tabs or vertical bars, in UTF-8 or UTF-16. The columns issue_date, details and expires_on are optional. After an
interruption, run the same command again: it continues where it stopped, with the journal in the folder of the list. The results have the status of each row: approved, failed,
rejected (the certificate already exists), refused (the row is invalid), revoked (later) or unfinished. A warning names each row whose file does not contain the recipient's name;
this requires a token with certificate-vault:list.`
}

// bulkResult is the output of the command. Results is the path of the file with the results.
type bulkResult struct {
	Rows       int    `json:"rows"`
	Approved   int    `json:"approved"`
	Failed     int    `json:"failed"`
	Rejected   int    `json:"rejected"`
	Revoked    int    `json:"revoked"`
	Refused    int    `json:"refused"`
	Unfinished int    `json:"unfinished"`
	Results    string `json:"results"`
	// NamesNotInFile is the number of Warnings. Both are null if the names were not checked.
	NamesNotInFile *int          `json:"names_not_in_file"`
	Warnings       []bulkWarning `json:"warnings"`
}

// bulkWarning reports an approved row that a person should check. Code is client.NameNotInFile, which
// means that the text of the file does not contain the name of the recipient.
type bulkWarning struct {
	Row         int    `json:"row"`
	UUID        string `json:"uuid"`
	ReferenceID string `json:"reference_id"`
	Code        string `json:"code"`

	name, file string
}

// Run uploads a list through the API and writes a file with the result of each row. It warns on
// standard error about each file without the recipient's name. Run returns an error if a row has no
// approved certificate.
func (b *bulkCommand) Run(c *console) error {
	progress := newBar(c.stderr)
	vault, err := b.connect(c.stderr, progress.end)
	if err != nil {
		return err
	}
	list, err := b.read(c.stderr)
	if err != nil {
		return &usageError{err}
	}
	run := &bulkclient.Run{
		Client: vault, Vault: strings.TrimRight(b.URL, "/"), List: list, File: b.List, Dir: b.Files, Now: time.Now, Report: report(progress),
		Notify: b.Notify,
	}
	if run.Dir == "" {
		run.Dir = filepath.Dir(b.List)
	}
	if info, err := os.Stat(run.Dir); err != nil || !info.IsDir() {
		return &usageError{fmt.Errorf("--files: the folder %s does not exist", run.Dir)}
	}
	results, err := run.Do(c.ctx)
	progress.end()
	if results == nil {
		return b.userError(err)
	}
	path := b.Results
	if path == "" {
		path = strings.TrimSuffix(b.List, filepath.Ext(b.List)) + ".results.csv"
	}
	if e := bulkclient.WriteResults(path, results); e != nil {
		return errors.Join(b.userError(err), e)
	}
	counts := bulkclient.Count(results)
	result := bulkResult{
		Rows: len(results), Approved: counts[bulkclient.Approved], Failed: counts[bulkclient.Failed], Rejected: counts[bulkclient.Rejected], Revoked: counts[bulkclient.Revoked],
		Refused: counts[bulkclient.Refused], Unfinished: counts[bulkclient.Unfinished], Results: path,
	}
	if err == nil {
		b.checkNames(c, run, results, &result)
	}
	if e := c.print(result, result.print); e != nil {
		return e
	}
	switch {
	case err != nil:
		if unknown, ok := errors.AsType[*bulkclient.UnknownBatchError](err); ok {
			return unknown
		}
		return fmt.Errorf("%w; run the same command again to continue", b.userError(err))
	case result.Approved != result.Rows:
		return fmt.Errorf("rows without an approved certificate: %d of %d; see %s", result.Rows-result.Approved, result.Rows, path)
	}
	return nil
}

// checkNames adds a warning to the output for each approved row whose file does not contain the
// recipient's name, and prints the warnings. If the check fails, checkNames prints the error and does not
// return it, because the upload has succeeded.
func (b *bulkCommand) checkNames(c *console, run *bulkclient.Run, results []*bulkclient.Result, out *bulkResult) {
	b.retries.stop()
	if err := run.CheckNames(c.ctx, results); err != nil {
		if errors.Is(err, client.ErrForbidden) {
			err = errors.New("the token has no permission certificate-vault:list")
		}
		printf(c.stderr, "certvault: the names in the files were not checked: %s\n", err)
		return
	}
	out.Warnings = []bulkWarning{}
	for i, r := range results {
		if row := run.List.Rows[i]; r.NameNotInFile {
			out.Warnings = append(out.Warnings, bulkWarning{r.Row, r.UUID, r.ReferenceID, client.NameNotInFile, row.Name, row.File})
		}
	}
	n := len(out.Warnings)
	out.NamesNotInFile = &n
	for _, w := range out.Warnings {
		printf(c.stderr, "warning: row %d: %s does not appear in %s\n", w.Row, w.name, w.file)
	}
}

func (a *bulkResult) print(w io.Writer) {
	printf(w, "%d approved", a.Approved)
	for _, other := range []struct {
		n      int
		status string
	}{{a.Failed, "failed"}, {a.Rejected, "rejected"}, {a.Revoked, "revoked"}, {a.Refused, "refused"}, {a.Unfinished, "unfinished"}} {
		if other.n > 0 {
			printf(w, ", %d %s", other.n, other.status)
		}
	}
	printf(w, " of %s\n", plural(a.Rows, "row"))
	switch n := len(a.Warnings); {
	case n == 1:
		printf(w, "1 file does not contain the name of the recipient\n")
	case n > 1:
		printf(w, "%d files do not contain the name of the recipient\n", n)
	}
	printf(w, "%s\n", a.Results)
}

func (b *bulkCommand) read(stderr io.Writer) (_ *bulkclient.List, err error) {
	file, err := os.Open(b.List)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, file.Close()) }()
	list, err := bulkclient.Read(file)
	if err != nil {
		return nil, err
	}
	if len(list.Unused) > 0 {
		printf(stderr, "certvault: the following columns are not used: %s\n", strings.Join(list.Unused, ", "))
	}
	return list, nil
}

// report returns a function that displays the progress of a run in a progress bar, or nil if there
// is no bar. The first half of the bar is the upload of the files.
func report(b *bar) func(bulkclient.Progress) {
	if b == nil {
		return nil
	}
	var mu sync.Mutex
	return func(p bulkclient.Progress) {
		mu.Lock()
		defer mu.Unlock()
		text := fmt.Sprintf("%s: %d stored, %d submitted, %d finished", plural(p.Total, "row"), p.Stored, p.Submitted, min(p.Done, p.Total))
		b.set(int64(p.Stored+p.Done), int64(2*p.Total), text)
	}
}
