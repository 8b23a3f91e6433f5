package api

import (
	"fmt"
	"net/http"
	"net/url"

	"github.com/certvault/certvault/internal/batch"
	"github.com/certvault/certvault/internal/cert"
	"github.com/certvault/certvault/internal/fault"
	"github.com/certvault/certvault/internal/token"
	"github.com/certvault/certvault/internal/web"
)

// batchRecord is a batch as clients see it.
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
}

// batchDetail is a batch with some of its entries.
type batchDetail struct {
	batchRecord

	Entries []batchEntry `json:"entries"`
}

// batchEntry is an entry and what became of it.
type batchEntry struct {
	Index        int     `json:"index"`
	Status       string  `json:"status"`
	UUID         *string `json:"uuid"`
	ReferenceID  *string `json:"reference_id"`
	Error        *string `json:"error"`
	ErrorCode    *string `json:"error_code"`
	ExistingUUID *string `json:"existing_uuid"`
}

func wireBatch(b *batch.Batch) batchRecord {
	return batchRecord{
		ID: b.UUID, BatchID: b.UUID, Name: b.Name, Source: string(b.Source), Status: string(b.Status()), Progress: b.Progress(), Total: b.Total,
		Processing: b.Processing, Approved: b.Approved, Failed: b.Failed, Rejected: b.Rejected, Revoked: b.Revoked,
		CreatedAt: *web.Timestamp(&b.CreatedAt), CompletedAt: web.Timestamp(b.CompletedAt),
	}
}

// sourceFor gives the source whose batches a token may see, "" for all: without
// the permission for batches it has that for vault certificates.
func (c *call) sourceFor(p token.Permission) cert.Source {
	if c.token.Has(p) {
		return ""
	}
	return cert.Vault
}

func (a *API) batches(w http.ResponseWriter, c *call) error {
	query, f, err := readPage(c)
	if err != nil {
		return err
	}
	list, total, err := a.Batches.List(c.Context(), c.institution.ID, batch.Filter{
		Source: c.sourceFor(token.BatchList), Page: f.Page, PerPage: f.PerPage,
	})
	if err != nil {
		return err
	}
	data := make([]batchRecord, len(list))
	for i, b := range list {
		data[i] = wireBatch(b)
	}
	return web.WriteJSON(w, http.StatusOK, paged(a.Links.To(c.URL.Path), query, f, pageOf(f, total), len(data), data))
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
	query, f, err := readPage(c)
	if err != nil {
		return err
	}
	entries, err := a.Batches.Entries(c.Context(), found, f.Page, f.PerPage)
	if err != nil {
		return err
	}
	data := batchDetail{batchRecord: wireBatch(found), Entries: make([]batchEntry, len(entries))}
	for i, e := range entries {
		data.Entries[i] = batchEntry{
			Index: e.Index, Status: e.Status, UUID: optional(e.UUID), ReferenceID: optional(e.ReferenceID),
			Error: optional(e.Error), ErrorCode: optional(e.ErrorCode), ExistingUUID: optional(e.ExistingUUID),
		}
	}
	return web.WriteJSON(w, http.StatusOK, paged(a.Links.To(c.URL.Path), query, f, pageOf(f, found.Total), len(entries), data))
}

// readPage reads the query of a list that has pages and no filter.
func readPage(c *call) (url.Values, cert.Filter, error) {
	f, query, err := readFilter(c, nil, cert.Filter{})
	switch {
	case err != nil:
		return nil, f, err
	case f.Cursor != nil:
		return nil, f, fault.OfField("cursor", "This list has pages and no cursor.")
	case f.Page*f.PerPage > cert.MaxDepth:
		return nil, f, fault.OfField("page", fmt.Sprintf("Pages reach the first %d records only.", cert.MaxDepth))
	}
	return query, f, nil
}

// pageOf is a page of a list whose length is known.
func pageOf(f cert.Filter, total int) *cert.List {
	return &cert.List{Total: &total, More: f.Page*f.PerPage < total}
}
