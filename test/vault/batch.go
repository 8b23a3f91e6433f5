package vault

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"mime/multipart"
	"net/http"
	"strconv"
	"time"
)

// The paths of bulk uploads and batches.
const (
	UploadFilePath = CertificatesPath + "/upload-file"
	BulkPath       = CertificatesPath + "/bulk"
	BatchesPath    = "/business/batches"
)

// Entry is an entry of a batch in a request.
type Entry struct {
	Index                          int
	Title, FullName, Email, FileID string
	IssueDate, Details             string
}

// EncodeEntries returns entries as multipart/form-data.
func EncodeEntries(entries []Entry) (contentType string, body []byte, err error) {
	var b bytes.Buffer
	w := multipart.NewWriter(&b)
	for _, e := range entries {
		for _, f := range []Field{
			{"certificate_title", e.Title}, {"full_name", e.FullName}, {"applicant_email", e.Email}, {"file_id", e.FileID},
			{"issue_date", e.IssueDate}, {"details", e.Details},
		} {
			if f.Value == "" {
				continue
			}
			if err := w.WriteField("entries["+strconv.Itoa(e.Index)+"]["+f.Name+"]", f.Value); err != nil {
				return "", nil, fmt.Errorf("encoding entries: %w", err)
			}
		}
	}
	if err := w.Close(); err != nil {
		return "", nil, fmt.Errorf("encoding entries: %w", err)
	}
	return w.FormDataContentType(), b.Bytes(), nil
}

// Stage uploads a file for entries, and returns the id of the file.
func (c *Client) Stage(ctx context.Context, name string, file []byte) (fileID string, err error) {
	form := &Form{FileField: "file", FileName: name, File: file}
	contentType, body, err := form.Encode()
	if err != nil {
		return "", err
	}
	a, err := c.do(ctx, http.MethodPost, UploadFilePath, contentType, body)
	if err != nil {
		return "", err
	}
	var made struct {
		Data struct {
			FileID string `json:"file_id"`
		} `json:"data"`
	}
	if err := json.Unmarshal(a.Body, &made); err != nil || a.Status != http.StatusCreated || made.Data.FileID == "" {
		return "", fmt.Errorf("uploading a file: status %d: %s", a.Status, a.Body)
	}
	return made.Data.FileID, nil
}

// Bulk submits entries as a batch.
func (c *Client) Bulk(ctx context.Context, entries []Entry) (*Response, error) {
	contentType, body, err := EncodeEntries(entries)
	if err != nil {
		return nil, err
	}
	return c.do(ctx, http.MethodPost, BulkPath, contentType, bytes.NewReader(body))
}

// Batch is a batch in a response.
type Batch struct {
	BatchID     string       `json:"batch_id"`
	Status      string       `json:"status"`
	Progress    int          `json:"progress"`
	Total       int          `json:"total"`
	Processing  int          `json:"processing"`
	Approved    int          `json:"approved"`
	Failed      int          `json:"failed"`
	Rejected    int          `json:"rejected"`
	Revoked     int          `json:"revoked"`
	CompletedAt *string      `json:"completed_at"`
	Entries     []BatchEntry `json:"entries"`
}

// BatchEntry is an entry of a batch in a response.
type BatchEntry struct {
	Index        int     `json:"index"`
	Status       string  `json:"status"`
	UUID         *string `json:"uuid"`
	ReferenceID  *string `json:"reference_id"`
	Error        *string `json:"error"`
	ExistingUUID *string `json:"existing_uuid"`
}

// Batch decodes the batch in the response.
func (a *Response) Batch() (*Batch, error) {
	var body struct {
		Data *Batch `json:"data"`
	}
	if err := json.Unmarshal(a.Body, &body); err != nil || body.Data == nil {
		return nil, fmt.Errorf("decoding a batch: status %d: %.500q: %w", a.Status, a.Body, err)
	}
	return body.Data, nil
}

// Batch returns a batch with one page of its entries. The first page is 1.
func (c *Client) Batch(ctx context.Context, id string, page, perPage int) (*Batch, error) {
	a, err := c.Get(ctx, fmt.Sprintf("%s/%s?page=%d&per_page=%d", BatchesPath, id, page, perPage))
	if err != nil {
		return nil, err
	}
	if a.Status != http.StatusOK {
		return nil, fmt.Errorf("reading a batch: status %d: %s", a.Status, a.Body)
	}
	return a.Batch()
}

// AwaitBatch waits until a batch is finished, a request fails, or ctx is done. It returns the batch with at
// most one entry.
func (c *Client) AwaitBatch(ctx context.Context, id string) (*Batch, error) {
	tick := time.NewTicker(pollTime)
	defer tick.Stop()
	for {
		b, err := c.Batch(ctx, id, 1, 1)
		if err != nil || b.Status != "processing" {
			return b, err
		}
		select {
		case <-ctx.Done():
			return nil, fmt.Errorf("waiting for batch %s, %d of %d done: %w", id, b.Total-b.Processing, b.Total, ctx.Err())
		case <-tick.C:
		}
	}
}
