package webhook

import (
	"cmp"
	"context"
	"database/sql"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"net/http"
	"slices"
	"time"

	"github.com/certvault/certvault/internal/db"
	"github.com/certvault/certvault/internal/fault"
)

// Delivery is an entry of the log: an event that is sent to an endpoint.
type Delivery struct {
	ID int64
	// Endpoint and EventID are UUIDs.
	Endpoint, EventID string
	Event             Name
	// Test is true if the event is an example without a certificate.
	Test     bool
	Status   DeliveryStatus
	Attempts int
	// Tries is the number of attempts that the retry schedule counts.
	Tries int
	// Replay is true if the delivery is sent after live deliveries.
	Replay    bool
	CreatedAt time.Time
	// DueAt is set for a pending delivery, and FinishedAt for a delivered or exhausted delivery.
	DueAt, FinishedAt *time.Time
}

// DeliveryDetail is a delivery with its body and all attempts.
type DeliveryDetail struct {
	Delivery

	Body string
	Log  []Attempt
}

// Attempt is one request with its response.
type Attempt struct {
	Number int
	// Probe is true if the attempt decided whether the breaker closes.
	Probe          bool
	StartedAt      time.Time
	Duration       time.Duration
	Outcome        Outcome
	Error          string
	URL            string
	RequestHeaders http.Header
	// StatusCode is 0 if there was no response.
	StatusCode      int
	ResponseHeaders http.Header
	ResponseBody    string
	// Truncated is true if the response's body was longer than ResponseBody.
	Truncated bool
}

const (
	// maxPage is the maximum number of deliveries on a page of the log.
	maxPage = 100
	// logTime is the longest time that a search of the log may take.
	logTime = 5 * time.Second
)

// LogQuery selects deliveries of the log.
type LogQuery struct {
	// Status selects one status; empty means all.
	Status DeliveryStatus
	// Before and After are ids of deliveries. Before selects the next older deliveries. After selects
	// the next newer deliveries and overrides Before. If both are 0, the page begins with the newest
	// delivery.
	Before, After int64
	// Limit is the maximum number of deliveries, from 1 to 100.
	Limit int
	// Event selects one event name; empty means all.
	Event Name
	// EventID selects the deliveries of one event, by its UUID. CertificateID selects the
	// deliveries of all events of a certificate; it has no effect if EventID is set.
	EventID       string
	CertificateID int64
}

const deliveryColumns = `d.id, p.uuid, e.uuid, e.name, ` + isTest + `, d.status, d.attempts, d.tries, d.replay, d.created_at, d.due_at, d.finished_at`

const deliveryTables = `webhook_deliveries d JOIN webhook_events e ON e.id = d.event_id JOIN webhook_endpoints p ON p.id = d.endpoint_id`

func scanDelivery(row interface{ Scan(dest ...any) error }, d *Delivery, more ...any) error {
	var created, due int64
	var finished sql.NullInt64
	if err := row.Scan(append([]any{
		&d.ID, &d.Endpoint, &d.EventID, &d.Event, &d.Test, &d.Status, &d.Attempts, &d.Tries, &d.Replay, &created, &due, &finished,
	}, more...)...); err != nil {
		return err
	}
	d.CreatedAt, d.FinishedAt = db.Time(created), db.OptionalTime(finished)
	if d.Status == DeliveryPending {
		// The due time 0 marks a delivery that is sent before all others.
		at := db.Time(max(due, created))
		d.DueAt = &at
	}
	return nil
}

// Log returns a page of deliveries, newest first, of one endpoint or, if uuid is empty, of all
// endpoints of the institution. The error is fault.Unavailable if the search takes longer than logTime.
func (s *Service) Log(ctx context.Context, institutionID int64, uuid string, q LogQuery) ([]Delivery, error) {
	if q.Limit < 1 || q.Limit > maxPage {
		return nil, fault.OfField("limit", fmt.Sprintf("The limit must be 1 to %d.", maxPage))
	}
	statuses := DeliveryStatuses
	if q.Status != "" {
		if !slices.Contains(DeliveryStatuses, q.Status) {
			return nil, fault.OfField("status", "The status must be pending, delivered or exhausted.")
		}
		statuses = []DeliveryStatus{q.Status}
	}
	if q.Event != "" && !slices.Contains(Names, q.Event) {
		return nil, fault.OfField("event", "There is no such event.")
	}
	endpoints, err := s.endpoints(ctx, institutionID, uuid)
	if err != nil {
		return nil, err
	}
	// A search for a rare event name may read the whole log.
	ctx, cancel := context.WithTimeout(ctx, s.logTime)
	defer cancel()
	list, err := s.search(ctx, institutionID, endpoints, statuses, q)
	if err != nil && errors.Is(ctx.Err(), context.DeadlineExceeded) {
		return nil, &fault.Error{Kind: fault.Unavailable, Message: longLog, RetryAfter: logTime, Err: err}
	}
	if err != nil {
		return nil, fmt.Errorf("searching the log: %w", err)
	}
	return q.page(list), nil
}

// search returns the deliveries that q selects. The list may have more than q.Limit deliveries, in any order.
func (s *Service) search(ctx context.Context, institutionID int64, endpoints []int64, statuses []DeliveryStatus, q LogQuery) (list []Delivery, err error) {
	if len(endpoints) > 0 && (q.EventID != "" || q.CertificateID != 0) {
		return s.logOfEvents(ctx, institutionID, endpoints, statuses, q)
	}
	// search reads a page for each endpoint and status. The order is that of the index, so a query without
	// an event name reads at most q.Limit deliveries.
	for _, endpoint := range endpoints {
		for _, status := range statuses {
			page, err := s.logOf(ctx, endpoint, status, q)
			if err != nil {
				return nil, err
			}
			list = append(list, page...)
		}
	}
	return list, nil
}

const longLog = "The search of the delivery log took too long. Choose an endpoint or a status."

// page returns a page of the list, newest first.
func (q *LogQuery) page(list []Delivery) []Delivery {
	slices.SortFunc(list, func(a, b Delivery) int { return cmp.Compare(b.ID, a.ID) })
	if q.After != 0 {
		return list[max(0, len(list)-q.Limit):]
	}
	return list[:min(len(list), q.Limit)]
}

// span returns the condition on the delivery id, the sort order, and the id for the condition.
func (q *LogQuery) span() (condition, order string, id int64) {
	if q.After != 0 {
		return `d.id > `, ` ORDER BY d.id`, q.After
	}
	if q.Before == 0 {
		return `d.id < `, ` ORDER BY d.id DESC`, math.MaxInt64
	}
	return `d.id < `, ` ORDER BY d.id DESC`, q.Before
}

// endpoints returns the id of an institution's endpoint, or the ids of all its endpoints if uuid is
// empty.
func (s *Service) endpoints(ctx context.Context, institutionID int64, uuid string) ([]int64, error) {
	if uuid != "" {
		e, err := s.Endpoint(ctx, institutionID, uuid)
		if err != nil {
			return nil, err
		}
		return []int64{e.ID}, nil
	}
	ids, err := db.Column[int64](s.db.QueryContext(ctx, `SELECT id FROM webhook_endpoints WHERE institution_id = $1 AND status <> 'deleted'`, institutionID))
	if err != nil {
		return nil, fmt.Errorf("listing endpoints: %w", err)
	}
	return ids, nil
}

// logOfEvents returns the deliveries of one event or of the events of one certificate. One query reads
// them for all endpoints and statuses, because their number is small.
func (s *Service) logOfEvents(ctx context.Context, institutionID int64, endpoints []int64, statuses []DeliveryStatus, q LogQuery) ([]Delivery, error) {
	events, arg := `e.uuid = $2`, any(q.EventID)
	if q.EventID == "" {
		events, arg = `e.certificate_id = $2`, q.CertificateID
	}
	span, order, from := q.span()
	args := []any{institutionID, arg, from, q.Limit}
	for _, id := range endpoints {
		args = append(args, id)
	}
	for _, status := range statuses {
		args = append(args, string(status))
	}
	if q.Event != "" {
		args = append(args, string(q.Event))
		events += fmt.Sprintf(` AND e.name = $%d`, len(args))
	}
	return s.deliveries(ctx, `
		WHERE e.institution_id = $1 AND `+events+` AND `+span+`$3 AND d.endpoint_id IN (`+db.Placeholders(5, len(endpoints))+`)
			AND d.status IN (`+db.Placeholders(5+len(endpoints), len(statuses))+`)`+order+` LIMIT $4`, args...)
}

// maxCount is the maximum value of a count.
const maxCount = 10_000

// Counts returns the number of deliveries in each status, including tests, up to 10,000 each, for an institution's
// endpoint or, if uuid is empty, for all its endpoints together.
func (s *Service) Counts(ctx context.Context, institutionID int64, uuid string) (map[DeliveryStatus]int, error) {
	endpoints, err := s.endpoints(ctx, institutionID, uuid)
	if err != nil {
		return nil, err
	}
	counts := map[DeliveryStatus]int{}
	for _, endpoint := range endpoints {
		for _, status := range DeliveryStatuses {
			var n int
			if err := s.db.QueryRowContext(ctx, `
				SELECT count(*) FROM (SELECT 1 FROM webhook_deliveries WHERE endpoint_id = $1 AND status = $2 LIMIT $3) AS counted`,
				endpoint, string(status), maxCount).Scan(&n); err != nil {
				return nil, fmt.Errorf("counting deliveries: %w", err)
			}
			counts[status] = min(counts[status]+n, maxCount)
		}
	}
	return counts, nil
}

func (s *Service) logOf(ctx context.Context, endpoint int64, status DeliveryStatus, q LogQuery) ([]Delivery, error) {
	span, order, from := q.span()
	where, args := `WHERE d.endpoint_id = $1 AND d.status = $2 AND `+span+`$3`, []any{endpoint, string(status), from, q.Limit}
	if q.Event != "" {
		where, args = where+` AND e.name = $5`, append(args, string(q.Event))
	}
	return s.deliveries(ctx, where+order+` LIMIT $4`, args...)
}

// deliveries returns the deliveries that a condition selects.
func (s *Service) deliveries(ctx context.Context, where string, args ...any) (list []Delivery, err error) {
	rows, err := s.db.QueryContext(ctx, `SELECT `+deliveryColumns+` FROM `+deliveryTables+` `+where, args...)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, rows.Close()) }()
	for rows.Next() {
		var d Delivery
		if err := scanDelivery(rows, &d); err != nil {
			return nil, err
		}
		list = append(list, d)
	}
	return list, rows.Err()
}

// Delivery returns a delivery with its body and attempts.
func (s *Service) Delivery(ctx context.Context, institutionID, id int64) (*DeliveryDetail, error) {
	var d DeliveryDetail
	err := scanDelivery(s.db.QueryRowContext(ctx, `
		SELECT `+deliveryColumns+`, d.body FROM `+deliveryTables+` WHERE d.id = $1 AND p.institution_id = $2 AND p.status <> 'deleted'`, id, institutionID), &d.Delivery, &d.Body)
	if errors.Is(err, sql.ErrNoRows) {
		return nil, errNoDelivery
	}
	if err != nil {
		return nil, fmt.Errorf("reading a delivery: %w", err)
	}
	if d.Log, err = s.attempts(ctx, id); err != nil {
		return nil, fmt.Errorf("reading attempts: %w", err)
	}
	return &d, nil
}

var errNoDelivery = fault.New(fault.NotFound, "There is no such delivery.")

func (s *Service) attempts(ctx context.Context, delivery int64) (list []Attempt, err error) {
	rows, err := s.db.QueryContext(ctx, `
		SELECT number, probe, started_at, duration, outcome, coalesce(error, ''), url, request_headers, coalesce(status_code, 0),
			coalesce(response_headers, '{}'), coalesce(response_body, ''), truncated
		FROM webhook_attempts WHERE delivery_id = $1 ORDER BY number`, delivery)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, rows.Close()) }()
	for rows.Next() {
		var a Attempt
		var started, duration int64
		var sent, received []byte
		if err := rows.Scan(&a.Number, &a.Probe, &started, &duration, &a.Outcome, &a.Error, &a.URL, &sent, &a.StatusCode,
			&received, &a.ResponseBody, &a.Truncated); err != nil {
			return nil, err
		}
		a.StartedAt, a.Duration = db.Time(started), time.Duration(duration)*time.Microsecond
		if err := errors.Join(json.Unmarshal(sent, &a.RequestHeaders), json.Unmarshal(received, &a.ResponseHeaders)); err != nil {
			return nil, err
		}
		list = append(list, a)
	}
	return list, rows.Err()
}
