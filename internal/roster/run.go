package roster

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"sync"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/certvault/certvault/client"
)

// parallel is how many files are stored at once.
const parallel = 4

// Status is what came of a row.
type Status string

const (
	// Approved rows have a valid certificate.
	Approved Status = "approved"
	// Failed rows have a certificate whose verified PDF could not be made.
	Failed Status = "failed"
	// Rejected rows have a certificate from before.
	Rejected Status = "rejected"
	// Revoked rows had a certificate that was revoked since.
	Revoked Status = "revoked"
	// Refused rows break a rule; they were not submitted.
	Refused Status = "refused"
	// Unfinished rows wait for the next run.
	Unfinished Status = "unfinished"
)

// Result is what came of a row.
type Result struct {
	Row               int
	Status            Status
	UUID, ReferenceID string
	Error             string
}

// Progress tells how far a run is, in rows.
type Progress struct {
	// Total rows, of which so many have their file stored, are submitted, and are
	// done.
	Total, Stored, Submitted, Done int
}

// Run is a list on its way through a vault.
type Run struct {
	Client *client.Client
	// Vault is its address, kept so that a list goes on where it began.
	Vault string
	List  *List
	// File is the list's path; what was done is kept beside it. Dir is the folder
	// of the files that it names.
	File, Dir string
	// Report is told how far the run is; it may be nil.
	Report func(Progress)
	Now    func() time.Time

	journal *journal
	folder  *folder

	mu       sync.Mutex
	progress Progress
	results  map[string]*Result // by the row's hash
}

// work is a row that is to be submitted.
type work struct {
	row    *Row
	fileID string
	result *Result
	// isRestored says that the vault had lost the file, and was given it again.
	isRestored bool
}

// Do takes the list through the vault and gives a result for each row in the
// order of the list, also when it ends with an error: what was not finished then
// goes on in the next run.
func (r *Run) Do(ctx context.Context) (_ []*Result, err error) {
	if r.journal, err = openJournal(r.File, r.Vault); err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, r.journal.close()) }()
	if r.folder, err = openFolder(r.Dir); err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, r.folder.close()) }()
	r.results = map[string]*Result{}
	r.progress = Progress{Total: len(r.List.Rows)}
	all := make([]*Result, len(r.List.Rows))
	var todo []*work
	for i, row := range r.List.Rows {
		all[i] = &Result{Row: row.Number, Status: Unfinished}
		if row.Problem != "" {
			r.refuse(all[i], row.Problem)
			continue
		}
		r.results[row.hash()] = all[i]
		todo = append(todo, &work{row: row, result: all[i]})
	}
	err = r.submitAll(ctx, todo)
	// What was accepted is asked for in any case.
	if e := r.collect(ctx); err == nil {
		err = e
	}
	return all, err
}

func (r *Run) refuse(result *Result, why string) {
	result.Status, result.Error = Refused, why
	r.advance(func(p *Progress) { p.Stored++; p.Submitted++; p.Done++ })
}

func (r *Run) advance(by func(*Progress)) {
	r.mu.Lock()
	defer r.mu.Unlock()
	by(&r.progress)
	if r.Report != nil {
		r.Report(r.progress)
	}
}

// submitAll submits what no earlier run did, in batches: first what one had begun
// to submit and does not know of, under the same key.
func (r *Run) submitAll(ctx context.Context, todo []*work) error {
	byHash := make(map[string]*work, len(todo))
	for _, w := range todo {
		byHash[w.row.hash()] = w
	}
	for _, b := range append([]*batch{}, r.journal.batches...) {
		known := 0
		for _, row := range b.Rows {
			if byHash[row.Hash] != nil {
				known++
			}
		}
		if b.id == "" {
			if known < len(b.Rows) {
				continue // the list was changed: what is left of the batch is submitted anew
			}
			if err := r.resubmit(ctx, b, byHash); err != nil {
				return err
			}
		}
		if b.id == "" {
			continue
		}
		for _, row := range b.Rows {
			delete(byHash, row.Hash)
		}
		r.advance(func(p *Progress) { p.Stored += known; p.Submitted += known })
	}
	rest := make([]*work, 0, len(byHash))
	for _, w := range todo {
		if byHash[w.row.hash()] != nil {
			rest = append(rest, w)
		}
	}
	for len(rest) > 0 {
		n := min(len(rest), client.MaxEntries)
		if err := r.submit(ctx, rest[:n]); err != nil {
			return err
		}
		rest = rest[n:]
	}
	return nil
}

// resubmit sends a batch whose answer was never seen once more, as it was. When
// the vault refuses it, its rows are submitted anew.
func (r *Run) resubmit(ctx context.Context, b *batch, byHash map[string]*work) error {
	entries := make([]client.Entry, len(b.Rows))
	for i, row := range b.Rows {
		entries[i] = entryOf(byHash[row.Hash].row, row.Index, row.FileID)
	}
	made, err := r.Client.SubmitBatch(ctx, entries, client.IdempotencyKey(b.Key))
	if errors.Is(err, client.ErrInvalid) {
		for _, row := range b.Rows {
			r.journal.forget(row.FileID)
		}
		return r.journal.note(&line{Dropped: b.Key})
	}
	if err != nil {
		return err
	}
	return r.journal.note(&line{Accepted: &accepted{Key: b.Key, ID: made.BatchID}})
}

func entryOf(row *Row, index int, fileID string) client.Entry {
	return client.Entry{
		Index: index, CertificateTitle: row.Title, FullName: row.Name, ApplicantEmail: row.Email, FileID: fileID, IssueDate: row.IssueDate, Details: row.Details,
	}
}

// submit stores the files of rows and submits them as one batch. Rows that the
// vault finds fault with are refused, and the others submitted without them.
func (r *Run) submit(ctx context.Context, rows []*work) error {
	// Two rounds may find a file that the vault no longer keeps, each other one
	// refuses a row.
	for range len(rows) + 2 {
		if err := r.storeFiles(ctx, rows); err != nil {
			return err
		}
		rows = remaining(rows)
		if len(rows) == 0 {
			return nil
		}
		b := &batch{Key: rand.Text(), Rows: make([]batchRow, len(rows))}
		entries := make([]client.Entry, len(rows))
		for i, w := range rows {
			entries[i] = entryOf(w.row, w.row.Number, w.fileID)
			b.Rows[i] = batchRow{Hash: w.row.hash(), Index: w.row.Number, FileID: w.fileID}
		}
		if err := r.journal.note(&line{Batch: b}); err != nil {
			return err
		}
		made, err := r.Client.SubmitBatch(ctx, entries, client.IdempotencyKey(b.Key))
		if err == nil {
			r.advance(func(p *Progress) { p.Submitted += len(rows) })
			return r.journal.note(&line{Accepted: &accepted{Key: b.Key, ID: made.BatchID}})
		}
		refused, isRefusal := errors.AsType[*client.Error](err)
		if !isRefusal || !errors.Is(err, client.ErrInvalid) {
			return err
		}
		if e := r.journal.note(&line{Dropped: b.Key}); e != nil {
			return errors.Join(err, e)
		}
		if !r.refuseRows(rows, refused) {
			return err
		}
	}
	return errors.New("the vault refuses the same rows again and again")
}

// refuseRows takes the vault's word for the rows it names, and tells whether it
// named any.
func (r *Run) refuseRows(rows []*work, e *client.Error) bool {
	byNumber := make(map[int]*work, len(rows))
	for _, w := range rows {
		byNumber[w.row.Number] = w
	}
	said := map[int]string{}
	lost := map[string]bool{}
	for field, messages := range e.Fields {
		parts := strings.SplitN(field, ".", 3)
		if len(parts) < 2 || parts[0] != "entries" {
			continue
		}
		number, err := strconv.Atoi(parts[1])
		w := byNumber[number]
		switch {
		case err != nil || w == nil:
		case len(parts) == 3 && parts[2] == "file_id" && !w.isRestored:
			lost[w.fileID] = true
		default:
			said[number] = strings.TrimSpace(said[number] + " " + strings.Join(messages, " "))
		}
	}
	for number, text := range said {
		w := byNumber[number]
		w.result.Status, w.result.Error = Refused, text
		r.advance(func(p *Progress) { p.Submitted++; p.Done++ })
	}
	r.loseFiles(rows, lost)
	return len(said)+len(lost) > 0
}

// loseFiles has files that the vault does not keep any more stored again, once.
func (r *Run) loseFiles(rows []*work, lost map[string]bool) {
	for id := range lost {
		r.journal.forget(id)
	}
	for _, w := range rows {
		if w.fileID != "" && lost[w.fileID] {
			w.fileID, w.isRestored = "", true
			r.advance(func(p *Progress) { p.Stored-- })
		}
	}
}

// remaining are the rows that were not refused.
func remaining(rows []*work) []*work {
	var list []*work
	for _, w := range rows {
		if w.result.Status == Unfinished {
			list = append(list, w)
		}
	}
	return list
}

// storeFiles stores each file that the rows name, once, several at a time.
func (r *Run) storeFiles(ctx context.Context, rows []*work) error {
	type job struct {
		source *source
		rows   []*work
	}
	var jobs []*job
	byKey := map[string]*job{}
	for _, w := range rows {
		if w.fileID != "" || w.result.Status != Unfinished {
			continue
		}
		found, problem := r.folder.find(w.row.File)
		if problem != "" {
			r.refuse(w.result, problem)
			continue
		}
		if id, ok := r.journal.stored(found.key, r.Now()); ok {
			w.fileID = id
			r.advance(func(p *Progress) { p.Stored++ })
			continue
		}
		j := byKey[found.key]
		if j == nil {
			j = &job{source: found}
			byKey[found.key], jobs = j, append(jobs, j)
		}
		j.rows = append(j.rows, w)
	}
	group, ctx := errgroup.WithContext(ctx)
	group.SetLimit(parallel)
	for _, j := range jobs {
		group.Go(func() error { return r.storeFile(ctx, j.source, j.rows) })
	}
	return group.Wait()
}

// storeFile stores a file for the rows that name it. They are refused when the
// vault refuses it.
func (r *Run) storeFile(ctx context.Context, s *source, rows []*work) error {
	stored, err := r.Client.UploadFile(ctx, s.file)
	if refused, ok := errors.AsType[*client.Error](err); ok && (errors.Is(err, client.ErrInvalid) || errors.Is(err, client.ErrTooLarge)) {
		why := refused.Message
		if len(refused.Fields["file"]) > 0 {
			why = strings.Join(refused.Fields["file"], " ")
		}
		for _, w := range rows {
			r.refuse(w.result, why)
		}
		return nil
	}
	if err != nil {
		return fmt.Errorf("storing %s: %w", s.file.Name, err)
	}
	if err := r.journal.note(&line{File: &storedFile{Key: s.key, ID: stored.FileID, At: r.Now()}}); err != nil {
		return err
	}
	for _, w := range rows {
		w.fileID = stored.FileID
	}
	r.advance(func(p *Progress) { p.Stored += len(rows) })
	return nil
}

// collect waits for the accepted batches and gives each row its result.
func (r *Run) collect(ctx context.Context) error {
	for _, b := range r.journal.batches {
		if b.id == "" {
			continue
		}
		before := 0
		if _, err := r.Client.AwaitBatch(ctx, b.id, func(state *client.Batch) {
			done := state.Total - state.Processing
			r.advance(func(p *Progress) { p.Done += done - before })
			before = done
		}); err != nil {
			return err
		}
		if err := r.entries(ctx, b); err != nil {
			return err
		}
	}
	return nil
}

// entries gives the rows of a batch that are still in the list their results.
func (r *Run) entries(ctx context.Context, b *batch) error {
	byIndex := make(map[int]*Result, len(b.Rows))
	for _, row := range b.Rows {
		byIndex[row.Index] = r.results[row.Hash]
	}
	for e, err := range r.Client.BatchEntries(ctx, b.id) {
		if err != nil {
			return err
		}
		result := byIndex[e.Index]
		if result == nil {
			continue
		}
		switch e.Status {
		case client.EntryApproved:
			result.Status = Approved
		case client.EntryFailed:
			result.Status = Failed
		case client.EntryRejected:
			result.Status = Rejected
		case client.EntryRevoked:
			result.Status = Revoked
		case client.EntryQueued, client.EntryProcessing:
			result.Status = Unfinished
		}
		result.UUID, result.ReferenceID, result.Error = textOf(e.UUID), textOf(e.ReferenceID), textOf(e.Error)
		if result.UUID == "" {
			result.UUID = textOf(e.ExistingUUID)
		}
	}
	return nil
}

func textOf(s *string) string {
	if s == nil {
		return ""
	}
	return *s
}
