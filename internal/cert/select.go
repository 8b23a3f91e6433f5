package cert

import (
	"context"
	"fmt"
	"iter"
	"slices"
	"strings"

	"github.com/google/uuid"

	"github.com/certvault/certvault/internal/fault"
)

// MaxSelection is how many certificates one operation on several takes.
const MaxSelection = 1000

// walkPage is how many records a walk reads at once. Between two reads nothing
// is held, however slowly what was read is used.
const walkPage = 1000

// Walk gives every certificate that a filter selects, newest first whatever
// order and part the filter names: in the order of creation each comes exactly
// once, whatever moves meanwhile. It ends with the first error.
func (s *Service) Walk(ctx context.Context, institutionID int64, f Filter) iter.Seq2[*Certificate, error] {
	return s.walk(ctx, institutionID, f, walkPage)
}

func (s *Service) walk(ctx context.Context, institutionID int64, f Filter, page int) iter.Seq2[*Certificate, error] {
	return func(yield func(*Certificate, error) bool) {
		f.Sort, f.Ascending, f.StatusOrder = ByCreated, false, nil
		f.Page, f.PerPage, f.Cursor = 1, 1, nil
		v, err := f.read(institutionID)
		if err != nil {
			yield(nil, err)
			return
		}
		v.limit = page
		for {
			items, err := s.step(ctx, v)
			if err != nil {
				yield(nil, err)
				return
			}
			for _, i := range items[:min(len(items), page)] {
				if !yield(i.Certificate, nil) {
					return
				}
			}
			if len(items) <= page {
				return
			}
			at := items[page-1].at
			v.after = &at
		}
	}
}

// step reads one page of a walk.
func (s *Service) step(ctx context.Context, v *view) ([]item, error) {
	ctx, cancel := context.WithTimeoutCause(ctx, s.listTime, errSlow)
	defer cancel()
	items, _, err := s.items(ctx, v)
	if err != nil {
		return nil, slow(ctx, fmt.Errorf("walking certificates: %w", err))
	}
	return items, nil
}

// Some gives certificates of an institution by their UUIDs, in that order;
// those that there are not are left out.
func (s *Service) Some(ctx context.Context, institutionID int64, uuids []string) ([]*Certificate, error) {
	if err := selected(uuids); err != nil {
		return nil, err
	}
	q := &statement{}
	found := map[string]*Certificate{}
	query := `SELECT ` + columns + ` FROM certificates WHERE institution_id = ` + q.arg(institutionID) + ` AND ` + in(q, "uuid", uuids)
	if err := s.each(ctx, query, q.args, func(scanRow func(...any) error) error {
		c, err := scan(scanner(scanRow))
		if err == nil {
			found[c.UUID] = c
		}
		return err
	}); err != nil {
		return nil, fmt.Errorf("reading certificates: %w", err)
	}
	var list []*Certificate
	for _, id := range uuids {
		if c := found[id]; c != nil {
			list = append(list, c)
			delete(found, id) // named twice, it comes once
		}
	}
	return list, nil
}

// scanner is a row's Scan as scan takes it.
type scanner func(dest ...any) error

// Scan reads the row.
func (s scanner) Scan(dest ...any) error { return s(dest...) }

// selected checks a selection made by hand.
func selected(uuids []string) error {
	switch {
	case len(uuids) == 0:
		return fault.OfField("certificates", "Choose at least one certificate.")
	case len(uuids) > MaxSelection:
		return fault.OfField("certificates", fmt.Sprintf("At most %d certificates can be chosen at once.", MaxSelection))
	case slices.ContainsFunc(uuids, func(id string) bool { return uuid.Validate(id) != nil || strings.ToLower(id) != id || len(id) != 36 }):
		return fault.OfField("certificates", "The certificates must be named by their UUIDs.")
	}
	return nil
}
