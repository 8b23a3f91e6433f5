package client

import (
	"bytes"
	"context"
	"fmt"
	"iter"
	"mime/multipart"
	"net/http"
	"net/url"
	"time"
)

// MaxEntries is the maximum number of entries of a batch.
const MaxEntries = 5000

// UploadedFile is a file that a batch can refer to for 24 hours.
type UploadedFile struct {
	FileID   string `json:"file_id"`
	FileName string `json:"file_name"`
	MIMEType string `json:"mime_type"`
	Size     int64  `json:"size"`
	// ExpiresAt is the time until which a batch may refer to the file.
	ExpiresAt time.Time `json:"expires_at"`
}

// UploadFile stores a file for entries of batches.
func (c *Client) UploadFile(ctx context.Context, f *File, options ...Option) (*UploadedFile, error) {
	b, err := newFormBody(nil, formFile{"file", f})
	if err != nil {
		return nil, err
	}
	return one[UploadedFile](ctx, c, post(vaultPath+"/upload-file", b, options))
}

// Entry is one certificate of a batch.
type Entry struct {
	// Index is the number with which the vault reports the entry: 0 to 999,999, unique in the batch.
	// Any order and gaps are allowed.
	Index                                      int
	CertificateTitle, FullName, ApplicantEmail string
	// FileID is UploadedFile.FileID. Several entries may have the same file.
	FileID string
	// IssueDate is YYYY-MM-DD; empty means today in UTC.
	IssueDate string
	Details   string
	// ExpiresOn is the last day of validity, YYYY-MM-DD, or empty.
	ExpiresOn string
}

// BatchAccepted is the response to a submitted batch, which the vault then processes.
type BatchAccepted struct {
	BatchID string `json:"batch_id"`
	Total   int    `json:"total"`
	Status  string `json:"status"`
}

// SubmitBatch submits up to MaxEntries entries. If a field is invalid, the vault rejects the whole
// batch, and the error is ErrInvalid. Error.Fields names the field by the entry's Index, as in
// entries.3.applicant_email. If the certificate of an entry already exists, the vault rejects only
// that entry, and BatchEntries reports it.
func (c *Client) SubmitBatch(ctx context.Context, entries []Entry, options ...Option) (*BatchAccepted, error) {
	b, err := entriesBody(entries, notifyOf(options))
	if err != nil {
		return nil, err
	}
	return one[BatchAccepted](ctx, c, post(vaultPath+"/bulk", b, options))
}

func entriesBody(entries []Entry, notify string) (*bytesBody, error) {
	var b bytes.Buffer
	w := multipart.NewWriter(&b)
	if notify != "" {
		if err := w.WriteField("notify", notify); err != nil {
			return nil, fmt.Errorf("writing the entries: %w", err)
		}
	}
	for i := range entries {
		e := &entries[i]
		for _, f := range []formField{
			{"certificate_title", e.CertificateTitle}, {"full_name", e.FullName}, {"applicant_email", e.ApplicantEmail}, {"file_id", e.FileID},
			{"issue_date", e.IssueDate}, {"details", e.Details}, {"expires_on", e.ExpiresOn},
		} {
			if f.value == "" {
				continue
			}
			if err := w.WriteField(fmt.Sprintf("entries[%d][%s]", e.Index, f.name), f.value); err != nil {
				return nil, fmt.Errorf("writing the entries: %w", err)
			}
		}
	}
	if err := w.Close(); err != nil {
		return nil, fmt.Errorf("writing the entries: %w", err)
	}
	return &bytesBody{kind: w.FormDataContentType(), content: b.Bytes()}, nil
}

// BatchStatus is the status of a batch.
type BatchStatus string

const (
	// BatchProcessing batches have unfinished entries.
	BatchProcessing BatchStatus = "processing"
	// BatchCompleted batches are finished, and no entry failed or was rejected.
	BatchCompleted BatchStatus = "completed"
	// BatchCompletedWithErrors batches are finished, and some entries failed or were rejected.
	BatchCompletedWithErrors BatchStatus = "completed_with_errors"
)

// Batch is a batch and its progress.
type Batch struct {
	ID          string      `json:"id"`
	Name        string      `json:"name"`
	Source      string      `json:"source"` // bulk, panel or template
	Status      BatchStatus `json:"status"`
	Progress    int         `json:"progress"` // percent
	Total       int         `json:"total"`
	Processing  int         `json:"processing"`
	Approved    int         `json:"approved"`
	Failed      int         `json:"failed"`
	Rejected    int         `json:"rejected"`
	Revoked     int         `json:"revoked"`
	CreatedAt   time.Time   `json:"created_at"`
	CompletedAt *time.Time  `json:"completed_at"`
	// Template is nil for a bulk upload, and if the template no longer exists.
	Template *BatchTemplate `json:"template"`
}

// BatchTemplate is the template from which the certificates of a batch are made.
type BatchTemplate struct {
	ID      string `json:"id"`
	Name    string `json:"name"`
	Version int    `json:"version"`
}

// EntryStatus is the status of an entry of a batch.
type EntryStatus string

const (
	// EntryQueued entries have no certificate yet.
	EntryQueued EntryStatus = "queued"
	// EntryPending entries have a certificate that waits for its signatories.
	EntryPending EntryStatus = "pending"
	// EntryProcessing entries have a certificate that is being processed.
	EntryProcessing EntryStatus = "processing"
	// EntryApproved entries have an approved certificate.
	EntryApproved EntryStatus = "approved"
	// EntryFailed entries have a certificate whose processing failed.
	EntryFailed EntryStatus = "failed"
	// EntryRejected entries have no certificate, usually because the same certificate already existed.
	// BatchEntry.Error states the reason.
	EntryRejected EntryStatus = "rejected"
	// EntryRevoked entries have a certificate that was revoked later.
	EntryRevoked EntryStatus = "revoked"
)

// BatchEntry is the status of an entry.
type BatchEntry struct {
	Index       int         `json:"index"`
	Status      EntryStatus `json:"status"`
	UUID        *string     `json:"uuid"`
	ReferenceID *string     `json:"reference_id"`
	Error       *string     `json:"error"`
	// ErrorCode is a stable code for Error.
	ErrorCode *string `json:"error_code"`
	// ExistingUUID is the UUID of the existing certificate if the entry was rejected as a
	// duplicate.
	ExistingUUID *string `json:"existing_uuid"`
}

const batchesPath = "/business/batches"

// Batches returns all batches, newest first. An error ends the sequence.
func (c *Client) Batches(ctx context.Context) iter.Seq2[*Batch, error] {
	return every[Batch](ctx, c, batchesPath, url.Values{})
}

// BatchPage returns one page of the list; pages count from 1.
func (c *Client) BatchPage(ctx context.Context, number, perPage int) (*Page[Batch], error) {
	return numbered[Batch](ctx, c, batchesPath, url.Values{}, number, perPage)
}

// Batch returns one batch by its id.
func (c *Client) Batch(ctx context.Context, id string) (*Batch, error) {
	return one[Batch](ctx, c, &call{method: http.MethodGet, path: batchesPath + "/" + url.PathEscape(id), query: url.Values{"per_page": {"1"}}})
}

// BatchEntries returns the entries of a batch in the order of their index. An error ends the
// sequence.
func (c *Client) BatchEntries(ctx context.Context, id string) iter.Seq2[*BatchEntry, error] {
	return walk(ctx, c, batchesPath+"/"+url.PathEscape(id), url.Values{}, func(data entriesOf) []*BatchEntry { return data.Entries })
}

// entriesOf is the response for a batch, reduced to its entries.
type entriesOf struct {
	Entries []*BatchEntry `json:"entries"`
}

// AwaitBatch waits until a batch is finished, a request fails, or ctx is done. After each
// successful request it calls report with the state of the batch, unless report is nil.
func (c *Client) AwaitBatch(ctx context.Context, id string, report func(*Batch)) (*Batch, error) {
	for wait := awaitFirst; ; wait = min(2*wait, awaitMax) {
		b, err := c.Batch(ctx, id)
		if err != nil {
			return nil, err
		}
		if report != nil {
			report(b)
		}
		if b.Status != BatchProcessing {
			return b, nil
		}
		if err := c.sleep(ctx, wait); err != nil {
			return b, fmt.Errorf("waiting for batch %s: %w", id, err)
		}
	}
}
