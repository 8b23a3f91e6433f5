package bulkimport

import (
	"context"
	"fmt"
	"maps"
	"slices"

	"github.com/certvault/certvault/internal/db"
)

// Doubt is a reason why a person must check a valid row, because the row may still be wrong.
type Doubt string

const (
	// DoubtDuplicate means that the row would become the same certificate as an earlier row, or that
	// a row of another certificate would use the same file.
	DoubtDuplicate Doubt = "duplicates"
	// DoubtAddress means that the e-mail address probably has a misspelt domain.
	DoubtAddress Doubt = "addresses"
	// DoubtName means that the file does not contain the name.
	DoubtName Doubt = "names"
)

// Doubts are all doubts in the order in which a person checks them. DoubtName is the last: many rows may
// have it, and few of these rows are wrong.
var Doubts = []Doubt{DoubtDuplicate, DoubtAddress, DoubtName}

// seen returns what a person sees of a doubt, or "" if the row has no such doubt. The text changes
// with the row, so that a person who accepts a row accepts only this state of the row.
func (r *Row) seen(kind Doubt) string {
	file := ""
	if r.File != nil {
		file = r.File.StagedUUID
	}
	switch {
	case r.Skipped || len(r.Problems) > 0:
	case kind == DoubtDuplicate && (r.DuplicateOf != 0 || r.Shared != nil):
		return fmt.Sprintf("%d %s", r.DuplicateOf, file)
	case kind == DoubtAddress && r.SuggestedDomain != "":
		return r.Text.Email
	case kind == DoubtName && r.NameAbsent:
		return r.Text.FullName + " " + file
	}
	return ""
}

// Has reports whether a row has a doubt of a kind that no person has accepted.
func (r *Row) Has(kind Doubt) bool {
	seen := r.seen(kind)
	return seen != "" && r.Accepted[kind] != seen
}

// Doubtful reports whether a row has a doubt of any kind that no person has accepted.
func (r *Row) Doubtful() bool { return slices.ContainsFunc(Doubts, r.Has) }

// WasAccepted reports whether a row has a doubt that a person has accepted.
func (r *Row) WasAccepted() bool {
	return slices.ContainsFunc(Doubts, func(kind Doubt) bool { return r.seen(kind) != "" && !r.Has(kind) })
}

// doubtful returns the rows that have a doubt of a kind, sorted by their first doubt. If kind is "", it
// returns the rows with any doubt.
func (v *Review) doubtful(kind Doubt) (list []*Row) {
	for _, first := range Doubts {
		for _, row := range v.Rows {
			if slices.IndexFunc(Doubts, row.Has) == slices.Index(Doubts, first) && (kind == "" || row.Has(kind)) {
				list = append(list, row)
			}
		}
	}
	return list
}

// Accepted returns the number of rows with a doubt that a person has accepted.
func (v *Review) Accepted() (n int) {
	for _, row := range v.Rows {
		if row.WasAccepted() {
			n++
		}
	}
	return n
}

// Accept stores that a doubt about rows of a review is unfounded. If kind is "", Accept does this for
// all doubts about the rows. An accepted row is doubtful again after it changes.
func (s *Service) Accept(ctx context.Context, v *Review, kind Doubt, rows []*Row) error {
	return s.update(ctx, v.Draft, "accepting rows", func(tx *db.Tx) error {
		for _, row := range rows {
			accepted := maps.Clone(row.Accepted)
			if accepted == nil {
				accepted = map[Doubt]string{}
			}
			for _, doubt := range Doubts {
				if (kind == "" || kind == doubt) && row.Has(doubt) {
					accepted[doubt] = row.seen(doubt)
				}
			}
			encoded, err := encode(accepted)
			if err != nil {
				return err
			}
			if _, err := tx.ExecContext(ctx, `UPDATE bulk_import_rows SET accepted = $1 WHERE draft_id = $2 AND number = $3`, encoded, v.ID, row.Number); err != nil {
				return err
			}
		}
		return nil
	})
}

// Reopen makes all accepted rows of a draft doubtful again.
func (s *Service) Reopen(ctx context.Context, d *Draft) error {
	return s.update(ctx, d, "checking rows again", func(tx *db.Tx) error {
		_, err := tx.ExecContext(ctx, `UPDATE bulk_import_rows SET accepted = NULL WHERE draft_id = $1`, d.ID)
		return err
	})
}
