package audit

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"time"

	"github.com/certvault/certvault/internal/db"
	"github.com/certvault/certvault/internal/sheet"
)

// exportPage is the number of entries that one query reads. No query is open between two pages, so
// that a slow receiver blocks no other work.
const exportPage = 500

// Format is the file format of an export.
type Format string

const (
	// CSV is for spreadsheets.
	CSV Format = "csv"
	// JSONL is for programs: one JSON object per line.
	JSONL Format = "jsonl"
)

// row is an entry in its exported form.
type row struct {
	Time      string   `json:"time"`
	Action    Action   `json:"action"`
	Actor     rowActor `json:"actor"`
	Subject   Subject  `json:"subject"`
	Detail    Detail   `json:"detail"`
	Address   string   `json:"address"`
	RequestID string   `json:"request_id"`
	Number    int64    `json:"number"`
}

type rowActor struct {
	Type ActorType `json:"type"`
	ID   string    `json:"id"`
	Name string    `json:"name"`
}

func (e *Entry) row() row {
	r := row{
		Time: e.At.UTC().Format(time.RFC3339Nano), Action: e.Action, Actor: rowActor{e.Actor.Type, e.Actor.ID, e.Actor.Name},
		Subject: e.Subject, Detail: e.Detail, RequestID: e.Actor.RequestID, Number: e.ID,
	}
	if e.Actor.Address.IsValid() {
		r.Address = e.Actor.Address.String()
	}
	return r
}

// Export writes the entries that match a filter, newest first. Export first records the export, so
// that an interrupted export is recorded too. It writes each page before it reads the next page.
func (l *Log) Export(ctx context.Context, w io.Writer, institutionID int64, f Filter, format Format) error {
	if err := l.db.Tx(ctx, func(tx *db.Tx) error {
		return RecordTx(ctx, tx, Entry{InstitutionID: institutionID, Action: AuditExported, Detail: f.detail(format)})
	}); err != nil {
		return err
	}
	write, end := writer(w, format)
	var after *mark
	for {
		list, err := l.page(ctx, institutionID, f, after, false, exportPage)
		if err != nil {
			return err
		}
		for i := range list {
			if err := write(list[i].row()); err != nil {
				return fmt.Errorf("exporting the audit log: %w", err)
			}
		}
		if len(list) < exportPage {
			return end()
		}
		last := list[len(list)-1].mark()
		after = &last
	}
}

func (f *Filter) detail(format Format) Detail {
	d := Detail{"format": format}
	for name, value := range map[string]string{"actor": f.Actor, "action": f.Action, "subject": f.Subject} {
		if value != "" {
			d[name] = short(value)
		}
	}
	for name, t := range map[string]time.Time{"from": f.From, "to": f.To} {
		if !t.IsZero() {
			d[name] = t.UTC().Format(time.RFC3339)
		}
	}
	return d
}

// writer returns a function that writes a row, and a function that completes the export.
func writer(w io.Writer, format Format) (write func(row) error, end func() error) {
	if format == JSONL {
		enc := json.NewEncoder(w)
		enc.SetEscapeHTML(false)
		return func(r row) error { return enc.Encode(r) }, func() error { return nil }
	}
	s := sheet.NewWriter(w)
	header := false
	head := func() error {
		if header {
			return nil
		}
		header = true
		return s.Write("Time (UTC)", "Action", "Actor type", "Actor id", "Actor", "Subject type", "Subject id", "Subject", "Detail", "Address", "Request id")
	}
	return func(r row) error {
			if err := head(); err != nil {
				return err
			}
			detail, err := json.Marshal(r.Detail)
			if err != nil {
				return err
			}
			return s.Write(r.Time, string(r.Action), string(r.Actor.Type), r.Actor.ID, r.Actor.Name,
				r.Subject.Type, r.Subject.ID, r.Subject.Name, string(detail), r.Address, r.RequestID)
		}, func() error {
			if err := head(); err != nil {
				return err
			}
			return s.Flush()
		}
}
