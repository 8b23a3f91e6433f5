package batch

import (
	"context"
	"fmt"
	"maps"
	"slices"

	"github.com/certvault/certvault/internal/db"
)

// addTemplates sets the field Template of batches of an institution.
func (s *Service) addTemplates(ctx context.Context, list []*Batch) error {
	byVersion := map[int64][]*Batch{}
	for _, b := range list {
		if b.versionID != 0 {
			byVersion[b.versionID] = append(byVersion[b.versionID], b)
		}
	}
	if len(byVersion) == 0 {
		return nil
	}
	return s.nameTemplates(ctx, list[0].institutionID, byVersion)
}

// nameTemplates sets the field Template of batches of an institution. byVersion has the batches by the
// id of the version of their template.
func (s *Service) nameTemplates(ctx context.Context, institutionID int64, byVersion map[int64][]*Batch) error {
	if s.templates == nil {
		return nil
	}
	names, err := s.templates(ctx, institutionID, slices.Sorted(maps.Keys(byVersion)))
	if err != nil {
		return fmt.Errorf("reading the templates of batches: %w", err)
	}
	for version, list := range byVersion {
		for _, b := range list {
			if name, ok := names[version]; ok {
				b.Template = &name
			}
		}
	}
	return nil
}

// Issued returns the number of entries of an institution's batches for each of the given versions of
// templates. Versions without batches are not in the map.
func (s *Service) Issued(ctx context.Context, institutionID int64, versionIDs []int64) (map[int64]int, error) {
	counts, err := db.ByID(ctx, s.db, institutionID, versionIDs, func(list string) string {
		return `SELECT template_version_id, sum(total) FROM batches
			WHERE institution_id = $1 AND template_version_id IN (` + list + `) GROUP BY template_version_id`
	}, db.ScanCount)
	if err != nil {
		return nil, fmt.Errorf("counting the entries of templates: %w", err)
	}
	return counts, nil
}
