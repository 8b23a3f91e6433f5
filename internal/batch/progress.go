package batch

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/certvault/certvault/internal/cert"
	"github.com/certvault/certvault/internal/db"
	"github.com/certvault/certvault/internal/fault"
	"github.com/certvault/certvault/internal/listing"
)

// Status is the state of a batch.
type Status string

const (
	// Processing batches have unfinished entries.
	Processing Status = "processing"
	// Completed batches are finished, and no entry failed or was rejected.
	Completed Status = "completed"
	// CompletedWithErrors batches are finished, and some entries failed or were rejected.
	CompletedWithErrors Status = "completed_with_errors"
)

// Batch is a bulk upload, or a list that is issued from a template, and its progress. Only Total is
// stored. The other numbers are counted from the certificates and from the entries without a
// certificate, so that they are always right.
type Batch struct {
	UUID   string
	Name   string
	Source cert.Source
	// Context is the trigger context of the batch's certificates.
	Context cert.TriggerContext
	// Template is the template of the batch's certificates. It is nil for a bulk upload, and if the
	// template no longer exists.
	Template *TemplateName
	// Total is the number of entries. It is the sum of Processing, Approved, Failed, Rejected and
	// Revoked.
	Total, Processing, Approved, Failed, Rejected, Revoked int
	// Pending is the number of certificates, included in Processing, that wait for their signatories.
	Pending   int
	CreatedAt time.Time
	// CompletedAt is the time at which the last entry finished. It is nil while an entry is
	// unfinished, also during a retry.
	CompletedAt *time.Time

	id, institutionID int64
	versionID         int64 // 0 without a template
}

// Status returns the state of the batch.
func (b *Batch) Status() Status {
	switch {
	case b.Processing > 0:
		return Processing
	case b.Failed+b.Rejected > 0:
		return CompletedWithErrors
	default:
		return Completed
	}
}

// Progress returns the share of finished entries in whole percent.
func (b *Batch) Progress() int {
	if b.Total == 0 {
		return 100
	}
	return 100 * (b.Total - b.Processing) / b.Total
}

// Filter selects batches.
type Filter struct {
	listing.Range

	// Source is the source of the batches, "" for all.
	Source cert.Source
}

// List is one page of the list of an institution's batches.
type List struct {
	listing.Part

	Items []*Batch
}

// batchList identifies the list to which a cursor of batches belongs. batchPlace is a position in
// the list.
type (
	batchList struct {
		InstitutionID int64       `json:"institution"`
		Source        cert.Source `json:"source"`
	}
	batchPlace struct {
		Created int64 `json:"c"`
		ID      int64 `json:"i"`
	}
)

const batchColumns = `id, uuid, institution_id, name, source, trigger_context, template_version_id, total, created_at`

func scanBatch(row interface{ Scan(dest ...any) error }) (*Batch, error) {
	var b Batch
	var created int64
	var version sql.NullInt64
	if err := row.Scan(&b.id, &b.UUID, &b.institutionID, &b.Name, &b.Source, &b.Context, &version, &b.Total, &created); err != nil {
		return nil, err
	}
	b.CreatedAt, b.versionID = db.Time(created), version.Int64
	return &b, nil
}

// List returns a page of an institution's batches, newest first.
func (s *Service) List(ctx context.Context, institutionID int64, f Filter) (*List, error) {
	var bad fault.Fields
	if f.Check(&bad); bad.Err() != nil {
		return nil, bad.Err()
	}
	of, list := batchList{institutionID, f.Source}, &List{}
	where, args := ` FROM batches WHERE institution_id = $1`, []any{institutionID}
	if f.Source != "" {
		where, args = where+` AND source = $2`, append(args, string(f.Source))
	}
	if !f.HasCursor() {
		list.Total = new(int)
		if err := s.db.QueryRowContext(ctx, `SELECT count(*)`+where, args...).Scan(list.Total); err != nil {
			return nil, fmt.Errorf("counting batches: %w", err)
		}
	}
	comparison, direction := "<", "DESC"
	if f.IsBackward() {
		comparison, direction = ">", "ASC"
	}
	if f.HasPosition() {
		var after batchPlace
		if err := s.batchCursors.Open(of, *f.Cursor, &after); err != nil {
			return nil, err
		}
		where += ` AND (created_at, id) ` + comparison + ` (` + db.Placeholders(len(args)+1, 2) + `)`
		args = append(args, after.Created, after.ID)
	}
	rows, err := s.db.QueryContext(ctx, fmt.Sprintf(
		`SELECT `+batchColumns+where+` ORDER BY created_at `+direction+`, id `+direction+` LIMIT $%d OFFSET $%d`, len(args)+1, len(args)+2),
		append(args, f.PerPage+1, f.Offset())...)
	if err != nil {
		return nil, fmt.Errorf("listing batches: %w", err)
	}
	if list.Items, err = scanBatches(rows); err != nil {
		return nil, fmt.Errorf("listing batches: %w", err)
	}
	if f.IsBackward() && len(list.Items) <= f.PerPage {
		f.Cursor = new(string)
		return s.List(ctx, institutionID, f)
	}
	if err := s.part(of, f.Range, list); err != nil {
		return nil, err
	}
	return list, s.complete(ctx, list.Items)
}

// part limits list to one page and sets its cursors. list.Items has one batch more than a page if
// there are more batches in the direction of r.
func (s *Service) part(of batchList, r listing.Range, list *List) (err error) {
	if list.More = len(list.Items) > r.PerPage; list.More {
		list.Items = list.Items[:r.PerPage]
	}
	if r.IsBackward() {
		slices.Reverse(list.Items)
	}
	if list.More {
		if list.Next, err = s.batchCursors.Make(of, list.Items[r.PerPage-1].place()); err != nil {
			return err
		}
	}
	if r.HasPosition() && len(list.Items) > 0 {
		list.Prev, err = s.batchCursors.Make(of, list.Items[0].place())
	}
	return err
}

func (b *Batch) place() batchPlace { return batchPlace{db.Micros(b.CreatedAt), b.id} }

func scanBatches(rows *sql.Rows) ([]*Batch, error) {
	return db.Collect(rows, func(rows *sql.Rows) (*Batch, error) { return scanBatch(rows) })
}

// Recent returns the newest batches of an institution, at most limit batches, without their templates
// and progress. It does not read the entries, so its duration does not depend on their number.
func (s *Service) Recent(ctx context.Context, institutionID int64, limit int) ([]*Batch, error) {
	rows, err := s.db.QueryContext(ctx, `SELECT `+batchColumns+` FROM batches WHERE institution_id = $1 ORDER BY created_at DESC, id DESC LIMIT $2`, institutionID, limit)
	if err != nil {
		return nil, fmt.Errorf("reading the newest batches: %w", err)
	}
	list, err := scanBatches(rows)
	if err != nil {
		return nil, fmt.Errorf("reading the newest batches: %w", err)
	}
	return list, nil
}

// Names maps the UUIDs of batches of an institution to their names. There must be at most
// listing.MaxPage UUIDs.
func (s *Service) Names(ctx context.Context, institutionID int64, uuids []string) (names map[string]string, err error) {
	names = map[string]string{}
	if len(uuids) == 0 {
		return names, nil
	}
	args := []any{institutionID}
	for _, u := range uuids {
		args = append(args, u)
	}
	rows, err := s.db.QueryContext(ctx, `SELECT uuid, name FROM batches WHERE institution_id = $1 AND uuid IN (`+db.Placeholders(2, len(uuids))+`)`, args...)
	if err != nil {
		return nil, fmt.Errorf("reading the names of batches: %w", err)
	}
	defer func() { err = errors.Join(err, rows.Close()) }()
	for rows.Next() {
		var id, name string
		if err := rows.Scan(&id, &name); err != nil {
			return nil, fmt.Errorf("reading the names of batches: %w", err)
		}
		names[id] = name
	}
	return names, rows.Err()
}

// ByUUIDs returns batches of an institution in the order of creation. There must be at most
// listing.MaxPage UUIDs.
func (s *Service) ByUUIDs(ctx context.Context, institutionID int64, uuids []string) ([]*Batch, error) {
	if len(uuids) == 0 {
		return []*Batch{}, nil
	}
	args := []any{institutionID}
	for _, u := range uuids {
		args = append(args, u)
	}
	rows, err := s.db.QueryContext(ctx, `SELECT `+batchColumns+` FROM batches WHERE institution_id = $1 AND uuid IN (`+db.Placeholders(2, len(uuids))+`) ORDER BY id`, args...)
	if err != nil {
		return nil, fmt.Errorf("reading batches: %w", err)
	}
	list, err := scanBatches(rows)
	if err != nil {
		return nil, fmt.Errorf("reading batches: %w", err)
	}
	return list, s.complete(ctx, list)
}

// Busy returns the UUIDs of those batches of an institution that have queued entries or certificates in
// processing. Certificates that wait for their signatories do not make a batch busy. Busy is faster than
// ByUUIDs for many batches, because it counts nothing.
func (s *Service) Busy(ctx context.Context, institutionID int64, uuids []string) ([]string, error) {
	if len(uuids) == 0 {
		return []string{}, nil
	}
	args := []any{institutionID, string(cert.Processing), string(queued)}
	for _, u := range uuids {
		args = append(args, u)
	}
	list, err := db.Column[string](s.db.QueryContext(ctx, `
		SELECT b.uuid FROM batches b WHERE b.institution_id = $1 AND b.uuid IN (`+db.Placeholders(len(args)-len(uuids)+1, len(uuids))+`) AND (
			EXISTS (SELECT 1 FROM certificates c WHERE c.batch_id = b.uuid AND c.status = $2) OR
			EXISTS (SELECT 1 FROM batch_entries e WHERE e.batch_id = b.id AND e.status = $3 AND e.status <> 'made'))`, args...))
	if err != nil {
		return nil, fmt.Errorf("finding unfinished batches: %w", err)
	}
	return list, nil
}

// OldestUnfinished returns the creation time of the oldest batch that has queued entries or certificates
// in processing, in any institution. It returns the zero time if there is no such batch. Of the batches
// with certificates in processing, it reads only the one with the smallest UUID. This batch is the oldest,
// because a UUID of version 7 begins with the time (RFC 9562, 5.7).
func OldestUnfinished(ctx context.Context, q db.Queryer) (time.Time, error) {
	var at sql.NullInt64
	if err := q.QueryRowContext(ctx, `
		SELECT min(created_at) FROM (
			SELECT created_at FROM batches WHERE NOT expanded
			UNION ALL
			SELECT created_at FROM batches WHERE uuid = (
				SELECT batch_id FROM certificates WHERE batch_id IS NOT NULL AND status = '`+string(cert.Processing)+`' ORDER BY batch_id LIMIT 1)
		) AS unfinished`).Scan(&at); err != nil {
		return time.Time{}, fmt.Errorf("reading the oldest unfinished batch: %w", err)
	}
	if !at.Valid {
		return time.Time{}, nil
	}
	return db.Time(at.Int64), nil
}

// Pace returns the number of certificates of batches that were approved since a time. Pages
// estimate the remaining time from this number.
func (s *Service) Pace(ctx context.Context, list []*Batch, since time.Time) (n int, err error) {
	if len(list) == 0 {
		return 0, nil
	}
	uuids := make([]string, len(list))
	for i, b := range list {
		uuids[i] = b.UUID
	}
	return cert.ApprovedSince(ctx, s.db, uuids, since)
}

// ByUUID returns a batch of an institution. If source is not "", the batch must have that source.
// The error is fault.NotFound if there is no such batch.
func (s *Service) ByUUID(ctx context.Context, institutionID int64, uuid string, source cert.Source) (*Batch, error) {
	b, err := scanBatch(s.db.QueryRowContext(ctx,
		`SELECT `+batchColumns+` FROM batches WHERE uuid = $1 AND institution_id = $2 AND (source = $3 OR $3 = '')`,
		uuid, institutionID, string(source)))
	if errors.Is(err, sql.ErrNoRows) {
		return nil, errNotFound
	}
	if err != nil {
		return nil, fmt.Errorf("reading a batch: %w", err)
	}
	return b, s.complete(ctx, []*Batch{b})
}

// complete sets the templates and the progress of batches of an institution.
func (s *Service) complete(ctx context.Context, list []*Batch) error {
	if err := s.addTemplates(ctx, list); err != nil {
		return err
	}
	return s.count(ctx, list)
}

// count counts the entries of batches by status. One statement reads one snapshot, so that an entry
// that becomes a certificate is counted exactly once.
func (s *Service) count(ctx context.Context, list []*Batch) (err error) {
	if len(list) == 0 {
		return nil
	}
	byUUID := map[string]*Batch{}
	var uuids, ids []any
	for _, b := range list {
		byUUID[b.UUID] = b
		uuids, ids = append(uuids, b.UUID), append(ids, b.id)
	}
	rows, err := s.db.QueryContext(ctx, `
		SELECT batch_id, status, count(*), max(coalesce(approved_at, updated_at)) FROM certificates
		WHERE batch_id IN (`+db.Placeholders(1, len(uuids))+`) GROUP BY batch_id, status
		UNION ALL
		SELECT b.uuid, e.status, count(*), max(coalesce(e.done_at, 0)) FROM batch_entries e JOIN batches b ON b.id = e.batch_id
		WHERE e.batch_id IN (`+db.Placeholders(1+len(uuids), len(ids))+`) AND e.status <> 'made' GROUP BY b.uuid, e.status`,
		append(uuids, ids...)...)
	if err != nil {
		return fmt.Errorf("counting entries: %w", err)
	}
	defer func() { err = errors.Join(err, rows.Close()) }()
	ends := map[*Batch]int64{}
	for _, b := range list {
		b.Processing = 0
	}
	for rows.Next() {
		var uuid, status string
		var n int
		var at int64
		if err := rows.Scan(&uuid, &status, &n, &at); err != nil {
			return fmt.Errorf("counting entries: %w", err)
		}
		b := byUUID[uuid]
		*b.number(status) += n
		if status == string(cert.Pending) {
			b.Pending += n
		}
		ends[b] = max(ends[b], at)
	}
	for b, at := range ends {
		if b.Processing == 0 {
			end := db.Time(at)
			b.CompletedAt = &end
		}
	}
	return rows.Err()
}

// number returns the counter for the status of a certificate or an entry. Queued entries and pending
// certificates count as processing.
func (b *Batch) number(status string) *int {
	switch status {
	case string(cert.Approved):
		return &b.Approved
	case string(cert.Failed):
		return &b.Failed
	case string(cert.Revoked):
		return &b.Revoked
	case string(rejected):
		return &b.Rejected
	default:
		return &b.Processing
	}
}
