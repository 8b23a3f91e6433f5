package batch

import (
	"context"
	"fmt"
	"maps"
	"slices"
)

// addTemplates sets the templates of batches of an institution.
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

// nameTemplates sets the templates of batches of an institution, which have the given versions.
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
