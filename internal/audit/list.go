package audit

import (
	"context"
	"database/sql"
	"encoding/base64"
	"encoding/binary"
	"encoding/json"
	"fmt"
	"net/netip"
	"slices"
	"time"

	"github.com/certvault/certvault/internal/db"
	"github.com/certvault/certvault/internal/fault"
)

// Log reads and exports the audit log.
type Log struct{ db *db.DB }

// New returns a Log.
func New(d *db.DB) *Log { return &Log{db: d} }

// Filter selects entries; a filter whose fields are empty selects all entries.
type Filter struct {
	// Actor is a name, a part of a name, an id or an actor type. A part of a name is found only in the
	// newest PartialEntries entries between From and To.
	Actor string
	// Action is an action, or a noun that selects all its actions.
	Action string
	// Subject is a name, a part of a name or an id of a subject. A part of a name is found as for Actor.
	Subject string
	// From is the first included time; To is the first excluded time.
	From, To time.Time
}

// MaxPage is the maximum number of entries on a page.
const MaxPage = 200

// mark is the position of an entry in the log.
type mark struct{ at, id int64 }

func (m mark) String() string {
	var b [16]byte
	binary.BigEndian.PutUint64(b[:8], uint64(m.at))
	binary.BigEndian.PutUint64(b[8:], uint64(m.id))
	return base64.RawURLEncoding.EncodeToString(b[:])
}

func parseMark(s string) (m mark, err error) {
	b, err := base64.RawURLEncoding.DecodeString(s)
	if err != nil || len(b) != 16 {
		return m, fault.OfField("after", "This page of the log is not known. Begin with the newest entries.")
	}
	return mark{int64(binary.BigEndian.Uint64(b[:8])), int64(binary.BigEndian.Uint64(b[8:]))}, nil
}

// List returns the entries of an institution's log, newest first. If institutionID is 0, List
// returns the entries of the installation's log. after is "" for the first page, and the next value
// of the previous page for each further page; next is "" on the last page.
func (l *Log) List(ctx context.Context, institutionID int64, f Filter, after string, limit int) (list []Entry, next string, err error) {
	var m *mark
	if after != "" {
		parsed, err := parseMark(after)
		if err != nil {
			return nil, "", err
		}
		m = &parsed
	}
	limit = max(1, min(limit, MaxPage))
	list, err = l.page(ctx, institutionID, f, m, false, limit+1)
	if err != nil {
		return nil, "", err
	}
	if len(list) > limit {
		list = list[:limit]
		next = list[limit-1].Mark()
	}
	return list, next, nil
}

// Before returns up to limit entries that directly precede the entry with the mark in the list,
// newest first. more reports whether there are newer entries.
func (l *Log) Before(ctx context.Context, institutionID int64, f Filter, mark string, limit int) (list []Entry, more bool, err error) {
	m, err := parseMark(mark)
	if err != nil {
		return nil, false, err
	}
	limit = max(1, min(limit, MaxPage))
	list, err = l.page(ctx, institutionID, f, &m, true, limit+1)
	if err != nil {
		return nil, false, err
	}
	more = len(list) > limit
	list = list[:min(len(list), limit)]
	slices.Reverse(list)
	return list, more, nil
}

// Mark returns the position of the entry in the log as text.
func (e *Entry) Mark() string { return e.mark().String() }

func (e *Entry) mark() mark { return mark{db.Micros(e.At), e.ID} }

// page reads up to limit entries that match f, newest first: those that are older than the position from, or
// the newest ones if from is nil. If back is true, page reads the entries that are newer than from, oldest
// first.
func (l *Log) page(ctx context.Context, institutionID int64, f Filter, from *mark, back bool, limit int) ([]Entry, error) {
	q := &statement{}
	where, err := l.filterCondition(ctx, q, institutionID, f, from, back, limit)
	if err != nil {
		return nil, err
	}
	return l.entries(ctx, where, q.args...)
}

// entries reads the entries that the parameter where selects: a condition with an order and a limit.
func (l *Log) entries(ctx context.Context, where string, args ...any) ([]Entry, error) {
	rows, err := l.db.QueryContext(ctx, `
		SELECT id, institution_id, at, actor_type, actor_id, actor_name, action, subject_type, subject_id, subject_name, detail, address, request_id
		FROM audit_entries WHERE `+where, args...)
	if err != nil {
		return nil, fmt.Errorf("reading the audit log: %w", err)
	}
	list, err := db.Collect(rows, scan)
	if err != nil {
		return nil, fmt.Errorf("reading the audit log: %w", err)
	}
	return list, nil
}

func scan(rows *sql.Rows) (e Entry, err error) {
	var institution sql.NullInt64
	var at int64
	var detail, address string
	if err := rows.Scan(&e.ID, &institution, &at, &e.Actor.Type, &e.Actor.ID, &e.Actor.Name, &e.Action,
		&e.Subject.Type, &e.Subject.ID, &e.Subject.Name, &detail, &address, &e.Actor.RequestID); err != nil {
		return e, err
	}
	e.InstitutionID, e.At = institution.Int64, db.Time(at)
	if err := json.Unmarshal([]byte(detail), &e.Detail); err != nil {
		return e, err
	}
	if address != "" {
		e.Actor.Address, err = netip.ParseAddr(address)
	}
	return e, err
}
