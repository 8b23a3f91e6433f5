package bulkclient

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/certvault/certvault/client"
)

// parallel is the number of files that are uploaded at the same time.
const parallel = 4

// Status is the result of a row.
type Status string

const (
	// Approved rows have a valid certificate.
	Approved Status = "approved"
	// Failed rows have a certificate whose processing failed.
	Failed Status = "failed"
	// Rejected rows were submitted but have no new certificate, usually because the certificate already
	// existed.
	Rejected Status = "rejected"
	// Revoked rows have a certificate that was revoked later.
	Revoked Status = "revoked"
	// Refused rows are invalid: they were not submitted, or the vault did not accept them into a batch.
	Refused Status = "refused"
	// Unfinished rows have no final result yet. The next run continues them.
	Unfinished Status = "unfinished"
)

// Result is the result of one row.
type Result struct {
	Row               int
	Status            Status
	UUID, ReferenceID string
	Error             string
	// NameNotInFile reports whether the file of an approved row has text without the name of the
	// recipient. [Run.CheckNames] sets it.
	NameNotInFile bool
}

// Progress is the progress of a run, in rows.
type Progress struct {
	// Total is the number of rows. Stored counts the rows whose file is stored, Submitted the rows
	// that are submitted, and Done the rows that are finished. Each of them also
	// counts the refused rows.
	Total, Stored, Submitted, Done int
}

// Run uploads a list to a vault.
type Run struct {
	Client *client.Client
	// Vault is the vault's address. The journal stores it, because a list must be continued at the
	// same vault.
	Vault string
	List  *List
	// File is the path of the list; the journal is stored in the same folder. Dir is the folder of
	// the files that the list names.
	File, Dir string
	// Notify is the time of the mail to the recipients, as in client.Notify, or "".
	Notify string
	// Report is called with the progress; it may be nil.
	Report func(Progress)
	Now    func() time.Time

	journal *journal
	folder  *folder

	mu       sync.Mutex
	progress Progress
	results  map[string]*Result // by the row's hash

	// began is the time at which the vault accepted the first batch of the list.
	began time.Time
}

// work is a valid row with the state of its submission.
type work struct {
	row    *Row
	fileID string
	result *Result
	// isRestored reports whether the file is stored again, because the vault had removed it.
	isRestored bool
}

// Do uploads the list and returns a result for each row in the order of the list. If the upload
// fails, Do returns the results together with the error, and the next run continues the unfinished
// rows. If the journal or the folder of the files cannot be opened, Do returns only an error.
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
	// Accepted batches are queried even after an error.
	if e := r.collect(ctx); err == nil {
		err = e
	}
	return all, err
}

func (r *Run) refuse(result *Result, reason string) {
	result.Status, result.Error = Refused, reason
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

// submitAll submits the rows that no earlier run has submitted, in batches. Before that, it repeats each
// batch of an earlier run whose response is not known, with the same key. It does not repeat a batch if
// rows of the batch were removed from the list.
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
				continue // the list was changed: the remaining rows are submitted in a new batch
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

// resubmit repeats a batch whose response is not known. If the vault rejects the batch, its rows are
// submitted in a new batch later.
func (r *Run) resubmit(ctx context.Context, b *batch, byHash map[string]*work) error {
	entries := make([]client.Entry, len(b.Rows))
	for i, row := range b.Rows {
		entries[i] = entryOf(byHash[row.Hash].row, row.Index, row.FileID)
	}
	created, err := r.Client.SubmitBatch(ctx, entries, client.IdempotencyKey(b.Key), client.Notify(b.Notify))
	if errors.Is(err, client.ErrInvalid) {
		for _, row := range b.Rows {
			r.journal.remove(row.FileID)
		}
		return r.journal.record(&line{Dropped: b.Key})
	}
	if err != nil {
		return err
	}
	return r.journal.record(&line{Accepted: &accepted{Key: b.Key, ID: created.BatchID}})
}

func entryOf(row *Row, index int, fileID string) client.Entry {
	return client.Entry{
		Index: index, CertificateTitle: row.Title, FullName: row.Name, ApplicantEmail: row.Email, FileID: fileID, IssueDate: row.IssueDate, Details: row.Details,
		ExpiresOn: row.ExpiresOn,
	}
}

// submit stores the files of rows and submits the rows as one batch. If the vault rejects some
// rows, submit marks these rows as refused and submits the remaining rows.
func (r *Run) submit(ctx context.Context, rows []*work) error {
	// The loop repeats if the vault rejected the batch, because it has removed a file or because rows
	// are invalid. The number of attempts is limited, because the vault may reject the remaining rows
	// again each time.
	for range len(rows) + 2 {
		if err := r.storeFiles(ctx, rows); err != nil {
			return err
		}
		rows = remaining(rows)
		if len(rows) == 0 {
			return nil
		}
		b := &batch{Key: rand.Text(), Rows: make([]batchRow, len(rows)), Notify: r.Notify}
		entries := make([]client.Entry, len(rows))
		for i, w := range rows {
			entries[i] = entryOf(w.row, w.row.Number, w.fileID)
			b.Rows[i] = batchRow{Hash: w.row.hash(), Index: w.row.Number, FileID: w.fileID}
		}
		if err := r.journal.record(&line{Batch: b}); err != nil {
			return err
		}
		created, err := r.Client.SubmitBatch(ctx, entries, client.IdempotencyKey(b.Key), client.Notify(b.Notify))
		if err == nil {
			r.advance(func(p *Progress) { p.Submitted += len(rows) })
			return r.journal.record(&line{Accepted: &accepted{Key: b.Key, ID: created.BatchID}})
		}
		refused, isRefusal := errors.AsType[*client.Error](err)
		if !isRefusal || !errors.Is(err, client.ErrInvalid) {
			return err
		}
		if e := r.journal.record(&line{Dropped: b.Key}); e != nil {
			return errors.Join(err, e)
		}
		if !r.refuseRows(rows, refused) {
			return err
		}
	}
	return errors.New("the vault rejects the same rows repeatedly")
}

// refuseRows sets the status Refused for the rows that the error of the vault names. If the file of a
// row is missing for the first time, refuseRows does not refuse the row, and the file is stored again.
// refuseRows reports whether the error names any rows.
func (r *Run) refuseRows(rows []*work, e *client.Error) bool {
	byNumber := make(map[int]*work, len(rows))
	for _, w := range rows {
		byNumber[w.row.Number] = w
	}
	problems := map[int]string{}
	removed := map[string]bool{}
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
			removed[w.fileID] = true
		default:
			problems[number] = strings.TrimSpace(problems[number] + " " + strings.Join(messages, " "))
		}
	}
	for number, text := range problems {
		w := byNumber[number]
		w.result.Status, w.result.Error = Refused, text
		r.advance(func(p *Progress) { p.Submitted++; p.Done++ })
	}
	r.resetFiles(rows, removed)
	return len(problems)+len(removed) > 0
}

// resetFiles resets the rows whose file the vault has removed, so that the file is stored again. It
// does not reset a refused row. Each row is reset at most once.
func (r *Run) resetFiles(rows []*work, removed map[string]bool) {
	for id := range removed {
		r.journal.remove(id)
	}
	for _, w := range rows {
		if w.result.Status == Unfinished && w.fileID != "" && removed[w.fileID] {
			w.fileID, w.isRestored = "", true
			r.advance(func(p *Progress) { p.Stored-- })
		}
	}
}

// remaining returns the rows that were not refused.
func remaining(rows []*work) []*work {
	var list []*work
	for _, w := range rows {
		if w.result.Status == Unfinished {
			list = append(list, w)
		}
	}
	return list
}

// storeFiles stores each file of the rows once. The constant parallel limits the number of concurrent
// uploads. storeFiles does not store a file that the journal has, and it refuses rows whose file cannot
// be used.
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

// storeFile stores a file of rows. If the vault rejects the file, storeFile refuses these rows.
func (r *Run) storeFile(ctx context.Context, s *source, rows []*work) error {
	stored, err := r.Client.UploadFile(ctx, s.file)
	if refused, ok := errors.AsType[*client.Error](err); ok && (errors.Is(err, client.ErrInvalid) || errors.Is(err, client.ErrTooLarge)) {
		reason := refused.Message
		if len(refused.Fields["file"]) > 0 {
			reason = strings.Join(refused.Fields["file"], " ")
		}
		for _, w := range rows {
			r.refuse(w.result, reason)
		}
		return nil
	}
	if err != nil {
		return fmt.Errorf("storing %s: %w", s.file.Name, err)
	}
	if err := r.journal.record(&line{File: &storedFile{Key: s.key, ID: stored.FileID, At: r.Now()}}); err != nil {
		return err
	}
	for _, w := range rows {
		w.fileID = stored.FileID
	}
	r.advance(func(p *Progress) { p.Stored += len(rows) })
	return nil
}

// collect waits for the accepted batches and sets the result of each row.
func (r *Run) collect(ctx context.Context) error {
	for _, b := range r.journal.batches {
		if b.id == "" {
			continue
		}
		before := 0
		finished, err := r.Client.AwaitBatch(ctx, b.id, func(state *client.Batch) {
			done := state.Total - state.Processing
			// Rows of the batch may have been removed from the list.
			r.advance(func(p *Progress) { p.Done = min(p.Total, p.Done+done-before) })
			before = done
		})
		if errors.Is(err, client.ErrNotFound) {
			return &UnknownBatchError{Journal: r.journal.file.Name()}
		}
		if err != nil {
			return err
		}
		if r.began.IsZero() || finished.CreatedAt.Before(r.began) {
			r.began = finished.CreatedAt
		}
		if err := r.entries(ctx, b); err != nil {
			return err
		}
	}
	return nil
}

// entries sets the results of the rows of a batch, except rows that are no longer in the list.
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
		case client.EntryQueued, client.EntryPending, client.EntryProcessing:
			result.Status = Unfinished
		}
		result.UUID, result.ReferenceID, result.Error = textOf(e.UUID), textOf(e.ReferenceID), textOf(e.Error)
		if result.UUID == "" {
			result.UUID = textOf(e.ExistingUUID)
		}
	}
	return nil
}

// CheckNames sets NameNotInFile in the results that Do returned. The entries of a batch do not have the
// notices about files. CheckNames therefore reads the approved certificates, newest first, until it
// reaches one that is older than the first batch.
func (r *Run) CheckNames(ctx context.Context, results []*Result) error {
	approved := map[string]*Result{}
	for _, result := range results {
		if result.Status == Approved {
			approved[result.UUID] = result
		}
	}
	if len(approved) == 0 {
		return nil
	}
	for c, err := range r.Client.VaultCertificates(ctx, client.VaultFilter{Status: client.Approved}) {
		if err != nil {
			return err
		}
		if result := approved[c.UUID]; result != nil {
			result.NameNotInFile = slices.ContainsFunc(c.Notices, func(n client.Notice) bool { return n.Code == client.NameNotInFile })
			delete(approved, c.UUID)
		}
		// The API may omit fractions of a second.
		if len(approved) == 0 || c.CreatedAt.Before(r.began.Add(-time.Second)) {
			break
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
