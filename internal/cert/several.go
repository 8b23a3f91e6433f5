package cert

import (
	"context"

	"github.com/certvault/certvault/internal/fault"
)

// Outcome is what an operation on several certificates did to one of them.
type Outcome struct {
	UUID string
	// Certificate is as it is now, nil when there is none.
	Certificate *Certificate
	// Done says that it was changed; Why says why not.
	Done bool
	Why  string
}

// RetrySeveral starts the processing of certificates again, each by itself: what
// cannot be retried is told and left as it is. An error ends it; what was done
// by then is in the outcomes and stays done.
func (s *Service) RetrySeveral(ctx context.Context, institutionID int64, uuids []string) ([]Outcome, error) {
	return s.several(ctx, institutionID, uuids, func(c *Certificate) string {
		if c.Status != Failed {
			return "It is not failed."
		}
		return ""
	}, func(id string) (*Certificate, error) { return s.Retry(ctx, institutionID, id, nil) })
}

// RevokeSeveral takes certificates back for one reason, each by itself, as
// RetrySeveral goes about it. A reason that cannot be stored is an error, and
// nothing is done.
func (s *Service) RevokeSeveral(ctx context.Context, institutionID int64, uuids []string, r Revocation) ([]Outcome, error) {
	if err := r.check(); err != nil {
		return nil, err
	}
	return s.several(ctx, institutionID, uuids, func(c *Certificate) string {
		if c.Status == Revoked {
			return "It was revoked before."
		}
		return ""
	}, func(id string) (*Certificate, error) { return s.Revoke(ctx, institutionID, id, r) })
}

// several does a deed to each certificate that nothing stands against.
func (s *Service) several(ctx context.Context, institutionID int64, uuids []string, against func(*Certificate) string, do func(id string) (*Certificate, error)) ([]Outcome, error) {
	found, err := s.Some(ctx, institutionID, uuids)
	if err != nil {
		return nil, err
	}
	of := map[string]*Certificate{}
	for _, c := range found {
		of[c.UUID] = c
	}
	seen := map[string]bool{}
	var list []Outcome
	for _, id := range uuids {
		if seen[id] {
			continue
		}
		seen[id] = true
		o := Outcome{UUID: id, Certificate: of[id]}
		if o.Certificate == nil {
			o.Why = "There is no such certificate."
		} else if o.Why = against(o.Certificate); o.Why == "" {
			c, err := do(id)
			switch {
			case err == nil:
				o.Certificate, o.Done = c, true
			case fault.Is(err, fault.BadRequest), fault.Is(err, fault.NotFound):
				o.Why = "It was changed by somebody else meanwhile."
			default:
				return list, err
			}
		}
		list = append(list, o)
	}
	return list, nil
}

// Page gives the UUIDs of the first certificates, at most MaxSelection, that a
// filter selects, and the cursor behind them, empty at the end: the steps in
// which an operation goes through everything that a filter selects.
func (s *Service) Page(ctx context.Context, institutionID int64, f Filter, cursor string) (uuids []string, next string, err error) {
	f.Sort, f.Ascending, f.StatusOrder = ByCreated, false, nil
	f.Page, f.PerPage, f.Cursor = 1, 1, &cursor
	v, err := f.read(institutionID)
	if err != nil {
		return nil, "", err
	}
	if cursor != "" {
		v.after = &place{}
		if err := s.cursors.Open(v, cursor, v.after); err != nil {
			return nil, "", err
		}
	}
	v.limit = MaxSelection
	items, err := s.step(ctx, v)
	if err != nil {
		return nil, "", err
	}
	if len(items) > MaxSelection {
		items = items[:MaxSelection]
		if next, err = s.cursors.Make(v, items[MaxSelection-1].at); err != nil {
			return nil, "", err
		}
	}
	for _, i := range items {
		uuids = append(uuids, i.UUID)
	}
	return uuids, next, nil
}
