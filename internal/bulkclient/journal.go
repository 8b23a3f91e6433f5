package bulkclient

import (
	"bufio"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"sync"
	"time"

	"github.com/gofrs/flock"
)

// fileLifetime is the time for which a stored file is reused. It is shorter than the 24 hours after
// which the vault deletes a file that no batch uses.
const fileLifetime = 23 * time.Hour

// ErrBusy means that another run uses the same list.
var ErrBusy = errors.New("another run of certvault bulk is processing this list")

// UnknownBatchError means that the institution of the token does not have a batch of the journal. A
// repeated run returns the same error.
type UnknownBatchError struct{ Journal string }

func (e *UnknownBatchError) Error() string {
	return "the institution of this token does not have a batch that the journal " + e.Journal + " names; " +
		"use a token of the institution to which the list was uploaded, or rename or remove the journal to start again"
}

// journal records the progress of a list, so that the next run can continue. It is a file in the folder
// of the list, with one JSON object per line.
type journal struct {
	mu   sync.Mutex
	file *os.File
	lock *flock.Flock

	files   map[string]storedFile // by source.key
	batches []*batch
}

// line is a line of the journal. Exactly one field is set.
type line struct {
	Vault    string      `json:"vault,omitempty"`
	File     *storedFile `json:"file,omitempty"`
	Batch    *batch      `json:"batch,omitempty"`
	Accepted *accepted   `json:"accepted,omitempty"`
	// Dropped is the key of a batch that the vault rejected.
	Dropped string `json:"dropped,omitempty"`
}

// storedFile is a file that the vault has stored for a batch.
type storedFile struct {
	Key string    `json:"key"`
	ID  string    `json:"id"`
	At  time.Time `json:"at"`
}

// batch is a batch that was submitted or will be submitted next, with its idempotency key.
type batch struct {
	Key  string     `json:"key"`
	Rows []batchRow `json:"rows"`
	// Notify is the time of the mail. A repeated submission must have the same time, because it has
	// the same idempotency key.
	Notify string `json:"notify,omitempty"`
	// id is the vault's id of the batch, or "" until the vault has accepted it.
	id string
}

// batchRow is a submitted row.
type batchRow struct {
	Hash   string `json:"hash"`
	Index  int    `json:"index"`
	FileID string `json:"file_id"`
}

type accepted struct {
	Key string `json:"key"`
	ID  string `json:"id"`
}

// openJournal opens or creates the journal, reads it, and locks the list for this run. The list itself
// is locked, so that no separate lock file remains.
func openJournal(list, vault string) (_ *journal, err error) {
	path := list + ".journal"
	j := &journal{files: map[string]storedFile{}, lock: flock.New(list, flock.SetFlag(os.O_RDONLY))}
	ok, err := j.lock.TryLock()
	if err != nil {
		return nil, fmt.Errorf("locking the list: %w", err)
	}
	if !ok {
		return nil, ErrBusy
	}
	defer func() {
		if err != nil {
			err = errors.Join(err, j.close())
		}
	}()
	if j.file, err = os.OpenFile(path, os.O_RDWR|os.O_CREATE, 0o600); err != nil {
		return nil, fmt.Errorf("opening the journal: %w", err)
	}
	if err := j.load(path, vault); err != nil {
		return nil, err
	}
	return j, nil
}

// load reads the journal and removes the last line if it is incomplete after a crash. It writes the
// vault's address to a new journal, and returns an error if the journal belongs to another vault.
func (j *journal) load(path, vault string) error {
	in := bufio.NewReader(j.file)
	var whole int64
	for {
		text, err := in.ReadBytes('\n')
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			return fmt.Errorf("reading the journal: %w", err)
		}
		var l line
		if err := json.Unmarshal(text, &l); err != nil {
			return fmt.Errorf("the journal %s is damaged; rename or remove it to start again: %w", path, err)
		}
		if l.Vault != "" && l.Vault != vault {
			return fmt.Errorf("the upload of this list was started for the vault %s; to use another vault, rename or remove %s", l.Vault, path)
		}
		j.apply(&l)
		whole += int64(len(text))
	}
	if err := j.file.Truncate(whole); err != nil {
		return fmt.Errorf("repairing the journal: %w", err)
	}
	if _, err := j.file.Seek(whole, io.SeekStart); err != nil {
		return fmt.Errorf("repairing the journal: %w", err)
	}
	if whole == 0 {
		return j.write(&line{Vault: vault})
	}
	return nil
}

func (j *journal) apply(l *line) {
	switch {
	case l.File != nil:
		j.files[l.File.Key] = *l.File
	case l.Batch != nil:
		j.batches = append(j.batches, l.Batch)
	case l.Accepted != nil:
		for _, b := range j.batches {
			if b.Key == l.Accepted.Key {
				b.id = l.Accepted.ID
			}
		}
	case l.Dropped != "":
		kept := j.batches[:0]
		for _, b := range j.batches {
			if b.Key != l.Dropped {
				kept = append(kept, b)
			}
		}
		j.batches = kept
	}
}

// record applies a line and writes it to the journal.
func (j *journal) record(l *line) error {
	j.mu.Lock()
	defer j.mu.Unlock()
	j.apply(l)
	return j.write(l)
}

func (j *journal) write(l *line) error {
	b, err := json.Marshal(l)
	if err != nil {
		return fmt.Errorf("writing the journal: %w", err)
	}
	if _, err := j.file.Write(append(b, '\n')); err != nil {
		return fmt.Errorf("writing the journal: %w", err)
	}
	if l.File != nil {
		return nil // a sync for each file takes longer than storing a few files again
	}
	if err := j.file.Sync(); err != nil {
		return fmt.Errorf("writing the journal: %w", err)
	}
	return nil
}

// stored returns the id of a file in the vault, and reports whether the file can still be reused at the
// time now.
func (j *journal) stored(key string, now time.Time) (id string, ok bool) {
	j.mu.Lock()
	defer j.mu.Unlock()
	f, ok := j.files[key]
	return f.ID, ok && now.Sub(f.At) < fileLifetime
}

// remove removes a file from the stored files, so that this run stores it again.
func (j *journal) remove(id string) {
	j.mu.Lock()
	defer j.mu.Unlock()
	for key, f := range j.files {
		if f.ID == id {
			delete(j.files, key)
		}
	}
}

func (j *journal) close() error {
	var errs []error
	if j.file != nil {
		errs = append(errs, j.file.Close())
	}
	return errors.Join(append(errs, j.lock.Unlock())...)
}
