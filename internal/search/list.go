package search

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/certvault/certvault/internal/cert"
	"github.com/certvault/certvault/internal/fault"
	"github.com/certvault/certvault/internal/listing"
)

const (
	// listTime is the time limit of the statements of one list.
	listTime = 5 * time.Second
	// listRetry is the time after which a client may repeat the request for a list that took too
	// long.
	listRetry = 5 * time.Second
	// walkPage is the number of records that Walk reads at a time.
	walkPage = 1000
)

var errSlow = errors.New("the list took longer than its time limit")

// List is one part of a list of certificates.
type List struct {
	listing.Part

	Items []*cert.Certificate
}

// List returns one part of the list of an institution's certificates that a filter selects. By default,
// the newest certificates are first. List returns a fault of kind Invalid for a filter that is not valid,
// and of kind Unavailable if the list takes too long.
func (s *Service) List(ctx context.Context, institutionID int64, f Filter) (l *List, err error) {
	err = s.db.Read(ctx, func(ctx context.Context) (err error) {
		l, err = s.listInTime(ctx, institutionID, f)
		return err
	})
	return l, err
}

func (s *Service) listInTime(ctx context.Context, institutionID int64, f Filter) (*List, error) {
	v, err := s.open(ctx, institutionID, f)
	if err != nil {
		return nil, err
	}
	ctx, cancel := context.WithTimeoutCause(ctx, s.listTime, errSlow)
	defer cancel()
	l, err := s.list(ctx, v, f.HasCursor())
	if err != nil && errors.Is(context.Cause(ctx), errSlow) {
		return nil, &fault.Error{
			Kind: fault.Unavailable, Message: "The list took too long to load. Narrow it down or try again later.", RetryAfter: listRetry, Err: err,
		}
	}
	if err != nil {
		return nil, fmt.Errorf("listing certificates: %w", err)
	}
	return l, nil
}

// Walk calls f for all certificates that a filter selects, in the order of the filter. Walk keeps only one
// page of the list in memory at a time. It stops at the first error and returns it.
func (s *Service) Walk(ctx context.Context, institutionID int64, filter Filter, f func(*cert.Certificate) error) error {
	for next, more := "", true; more; more = next != "" {
		filter.Range = listing.Range{PerPage: listing.MaxPage, Cursor: &next}
		var l *List
		err := s.db.Read(ctx, func(ctx context.Context) error {
			v, err := s.open(ctx, institutionID, filter)
			if err != nil {
				return err
			}
			v.limit = walkPage
			l, err = s.list(ctx, v, true)
			return err
		})
		if err != nil {
			return fmt.Errorf("listing certificates: %w", err)
		}
		for _, c := range l.Items {
			if err := f(c); err != nil {
				return err
			}
		}
		next = l.Next
	}
	return nil
}

// open returns the view of a filter, with the position of its cursor. It returns a fault of kind
// Invalid for a filter or cursor that is not valid.
func (s *Service) open(ctx context.Context, institutionID int64, f Filter) (*view, error) {
	v, err := s.view(ctx, institutionID, f)
	if err != nil || !f.HasPosition() {
		return v, err
	}
	v.after, v.back = &position{}, f.IsBackward()
	return v, s.cursors.Open(v, *f.Cursor, v.after)
}

// view returns the view of a filter.
func (s *Service) view(ctx context.Context, institutionID int64, f Filter) (*view, error) {
	v, err := f.read(institutionID)
	if err == nil {
		v.today = cert.Today(s.now())
	}
	if err == nil && len(v.Sources) == 0 {
		v.present, err = s.present(ctx, institutionID)
	}
	return v, err
}

// present returns the sources of which an institution has certificates. Most institutions have only one.
// Their lists then read fewer parts of an index.
func (s *Service) present(ctx context.Context, institutionID int64) (list []cert.Source, err error) {
	q := &statement{}
	id := q.arg(institutionID)
	columns := make([]string, len(cert.Sources))
	found := make([]bool, len(cert.Sources))
	dest := make([]any, len(cert.Sources))
	for i, source := range cert.Sources {
		columns[i] = `EXISTS (SELECT 1 FROM certificates WHERE institution_id = ` + id + ` AND source = ` + q.arg(string(source)) + `)`
		dest[i] = &found[i]
	}
	if err := s.db.QueryRowContext(ctx, `SELECT `+strings.Join(columns, ", "), q.args...).Scan(dest...); err != nil {
		return nil, fmt.Errorf("finding the sources of certificates: %w", err)
	}
	for i, source := range cert.Sources {
		if found[i] {
			list = append(list, source)
		}
	}
	return list, nil
}

func (s *Service) list(ctx context.Context, v *view, byCursor bool) (*List, error) {
	items, total, err := s.page(ctx, v.reversed())
	if err != nil {
		return nil, err
	}
	if v.back && len(items) <= v.limit {
		return s.list(ctx, v.fromStart(), byCursor)
	}
	l := &List{}
	switch {
	case byCursor:
	case v.filtered() && total > s.bounds.count:
		l.AtLeast = s.bounds.count
	default:
		l.Total = &total
	}
	if len(items) > v.limit {
		items = items[:v.limit]
		l.More = true
	}
	if v.back {
		slices.Reverse(items)
	}
	if l.More {
		if l.Next, err = s.cursors.Make(v, items[v.limit-1].at); err != nil {
			return nil, err
		}
	}
	if v.after != nil && len(items) > 0 {
		if l.Prev, err = s.cursors.Make(v, items[0].at); err != nil {
			return nil, err
		}
	}
	for _, item := range items {
		l.Items = append(l.Items, item.Certificate)
	}
	return l, nil
}
