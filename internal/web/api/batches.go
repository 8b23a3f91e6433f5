package api

import (
	"net/http"

	"github.com/certvault/certvault/internal/batch"
	"github.com/certvault/certvault/internal/cert"
	"github.com/certvault/certvault/internal/fault"
	"github.com/certvault/certvault/internal/search"
	"github.com/certvault/certvault/internal/token"
	"github.com/certvault/certvault/internal/web"
)

// batchRecord is the wire type of a batch.
type batchRecord struct {
	ID          string  `json:"id"`
	BatchID     string  `json:"batch_id"`
	Name        string  `json:"name"`
	Source      string  `json:"source"`
	Status      string  `json:"status"`
	Progress    int     `json:"progress"`
	Total       int     `json:"total"`
	Processing  int     `json:"processing"`
	Approved    int     `json:"approved"`
	Failed      int     `json:"failed"`
	Rejected    int     `json:"rejected"`
	Revoked     int     `json:"revoked"`
	CreatedAt   string  `json:"created_at"`
	CompletedAt *string `json:"completed_at"`
	// Template is nil for a bulk upload.
	Template *batchTemplate `json:"template"`
}

// batchTemplate is the wire type of the template of a batch.
type batchTemplate struct {
	ID      string `json:"id"`
	Name    string `json:"name"`
	Version int    `json:"version"`
}

// batchDetail is a batch with a page of its entries.
type batchDetail struct {
	batchRecord

	Entries []batchEntry `json:"entries"`
}

// batchEntry is the wire type of an entry and its result.
type batchEntry struct {
	Index        int     `json:"index"`
	Status       string  `json:"status"`
	UUID         *string `json:"uuid"`
	ReferenceID  *string `json:"reference_id"`
	Error        *string `json:"error"`
	ErrorCode    *string `json:"error_code"`
	ExistingUUID *string `json:"existing_uuid"`
}

// batchSources are the sources of batches by the trigger context of their certificates.
var batchSources = map[cert.TriggerContext]string{cert.BulkUpload: "bulk", cert.PanelBulkUpload: "panel", cert.FromTemplate: "template"}

func wireBatch(b *batch.Batch) batchRecord {
	record := batchRecord{
		ID: b.UUID, BatchID: b.UUID, Name: b.Name, Source: batchSources[b.Context], Status: string(b.Status()), Progress: b.Progress(), Total: b.Total,
		Processing: b.Processing, Approved: b.Approved, Failed: b.Failed, Rejected: b.Rejected, Revoked: b.Revoked,
		CreatedAt: *web.Timestamp(&b.CreatedAt), CompletedAt: web.Timestamp(b.CompletedAt),
	}
	if t := b.Template; t != nil {
		record.Template = &batchTemplate{ID: t.ID, Name: t.Name, Version: t.Version}
	}
	return record
}

// sourceFor returns the source of the batches that a token may read, or "" for all sources. Without
// the permission p, a token may read only batches of vault certificates.
func (c *call) sourceFor(p token.Permission) cert.Source {
	if c.token.Has(p) {
		return ""
	}
	return cert.Vault
}

func (a *API) batches(w http.ResponseWriter, c *call) error {
	f, query, err := readFilter(c, nil, search.Filter{})
	if err != nil {
		return err
	}
	list, err := a.Batches.List(c.Context(), c.institution.ID, batch.Filter{Range: f.Range, Source: c.sourceFor(token.BatchList)})
	if err != nil {
		return err
	}
	data := make([]batchRecord, len(list.Items))
	for i, b := range list.Items {
		data[i] = wireBatch(b)
	}
	return web.WriteJSON(w, http.StatusOK, paged(a.Links.To(c.URL.Path), query, f.Range, list.Part, len(data), data))
}

func (a *API) batch(w http.ResponseWriter, c *call) error {
	id, ok := parseUUID(c.PathValue("batch_id"))
	if !ok {
		return fault.New(fault.NotFound, "No such batch.")
	}
	found, err := a.Batches.ByUUID(c.Context(), c.institution.ID, id, c.sourceFor(token.BatchView))
	if err != nil {
		return err
	}
	f, query, err := readFilter(c, nil, search.Filter{})
	if err != nil {
		return err
	}
	entries, err := a.Batches.Entries(c.Context(), found, f.Range)
	if err != nil {
		return err
	}
	data := batchDetail{batchRecord: wireBatch(found), Entries: make([]batchEntry, len(entries.Items))}
	for i, e := range entries.Items {
		data.Entries[i] = batchEntry{
			Index: e.Index, Status: e.Status, UUID: optional(e.UUID), ReferenceID: optional(e.ReferenceID),
			Error: optional(rejectionText(&e)), ErrorCode: optional(e.ErrorCode), ExistingUUID: optional(e.ExistingUUID),
		}
	}
	return web.WriteJSON(w, http.StatusOK, paged(a.Links.To(c.URL.Path), query, f.Range, entries.Part, len(data.Entries), data))
}
