package search

import (
	"context"
	"fmt"

	"github.com/certvault/certvault/internal/cert"
	"github.com/certvault/certvault/internal/listing"
)

// walkPage is how many records are read at a time where all are wanted.
const walkPage = 1000

// Walk gives all certificates of a filter to f, in the order of the filter, without
// holding more than a few of them. It ends at the first error.
func (s *Service) Walk(ctx context.Context, institutionID int64, filter Filter, f func(*cert.Certificate) error) error {
	next := ""
	for {
		filter.Range = listing.Range{PerPage: listing.MaxPage, Cursor: &next}
		l, err := s.walkFrom(ctx, institutionID, filter)
		if err != nil {
			return err
		}
		for _, one := range l.Items {
			if err := f(one); err != nil {
				return err
			}
		}
		if next = l.Next; next == "" {
			return nil
		}
	}
}

// walkFrom is List with more records at a time than anybody may ask for.
func (s *Service) walkFrom(ctx context.Context, institutionID int64, f Filter) (*List, error) {
	v, err := f.read(institutionID)
	if err != nil {
		return nil, err
	}
	v.limit = walkPage
	if f.Begun() {
		v.after = &place{}
		if err := s.cursors.Open(v, *f.Cursor, v.after); err != nil {
			return nil, err
		}
	}
	l, err := s.list(ctx, v, true)
	if err != nil {
		return nil, fmt.Errorf("listing certificates: %w", err)
	}
	return l, nil
}
