package bulkimport

import (
	"context"
	"log/slog"
	"path"
	"slices"
	"strings"
	"sync"
	"time"
	"unicode"

	"golang.org/x/text/unicode/norm"

	"github.com/certvault/certvault/internal/fault"
)

// maxVerdicts is the maximum number of results of comparisons that a Service stores.
const maxVerdicts = 50_000

// comparison identifies the comparison of a name with the text of a staged file.
type comparison struct{ staged, name string }

// verdicts is a cache of the results of comparisons. A page of a draft needs many of these results,
// and the text of a file does not change.
type verdicts struct {
	mu sync.Mutex
	// lacks reports for each comparison whether the text does not contain the name.
	lacks map[comparison]bool
}

func (v *verdicts) get(c comparison) (lacks, known bool) {
	v.mu.Lock()
	defer v.mu.Unlock()
	lacks, known = v.lacks[c]
	return lacks, known
}

// put stores the result of a comparison. If maxVerdicts results are stored, it first removes all of
// them.
func (v *verdicts) put(c comparison, lacks bool) {
	v.mu.Lock()
	defer v.mu.Unlock()
	if v.lacks == nil || len(v.lacks) >= maxVerdicts {
		v.lacks = map[comparison]bool{}
	}
	v.lacks[c] = lacks
}

// CompareNames sets NameAbsent of the valid rows in rows, which are rows of the review. It starts to
// read files only within the given time. It returns the number of rows that it did not compare, which
// a later call can compare. Only one call reads files at a time. A concurrent call uses only results
// that are already stored.
func (s *Service) CompareNames(ctx context.Context, v *Review, rows []*Row, atMost time.Duration) (left int, err error) {
	until := time.Now().Add(atMost)
	if atMost > 0 {
		select {
		case s.comparing <- struct{}{}:
			defer func() { <-s.comparing }()
		default:
			until = time.Time{}
		}
	}
	for _, row := range rows {
		if row.Skipped || len(row.Problems) > 0 || row.File == nil || row.File.StagedUUID == "" {
			continue
		}
		c := comparison{row.File.StagedUUID, row.Text.FullName}
		lacks, known := s.verdicts.get(c)
		if !known && time.Now().Before(until) {
			if lacks, known, err = s.compare(ctx, v.InstitutionID, c); err != nil {
				return 0, err
			}
		}
		if !known {
			left++
		}
		row.NameAbsent = lacks
	}
	return left, nil
}

// compare reads a file and compares its text with a name. If the text cannot be read, compare reports
// that the name is not absent, because a person could not resolve this doubt. After an error that may be
// temporary, compare does not store this result, so that a later call reads the file again.
func (s *Service) compare(ctx context.Context, institutionID int64, c comparison) (lacks, known bool, err error) {
	staged, err := s.batches.Staged(ctx, institutionID, c.staged)
	if err == nil {
		lacks, err = s.certs.LacksName(ctx, &staged.File, c.name)
	}
	switch {
	case ctx.Err() != nil:
		return false, false, ctx.Err()
	case err != nil && !fault.Is(err, fault.NotFound) && !fault.Is(err, fault.Invalid):
		s.log.WarnContext(ctx, "the text of a file of a bulk upload cannot be read", slog.Any("error", err))
		return false, true, nil
	}
	s.verdicts.put(c, lacks)
	return lacks, true, nil
}

// minWord is the minimum length in characters of a part of a name that is compared with file names.
const minWord = 2

// SuggestedFiles returns, for rows without a file, the unused file that probably belongs to the row.
// This is the only unused file whose name has the same letters and digits as the file name in the row.
// If there is no such file, and the recipient's name has at least two parts, it is the only unused file
// whose name contains all parts of the recipient's name. Extensions, parts of a name with fewer than minWord
// characters, and refused files are ignored.
func (v *Review) SuggestedFiles() map[*Row]*File {
	keys := make([]string, len(v.Unused))
	for i, f := range v.Unused {
		if f.Problem == "" {
			keys[i] = letters(strings.TrimSuffix(path.Base(f.Path), path.Ext(f.Path)))
		}
	}
	only := func(fits func(key string) bool) *File {
		at := slices.IndexFunc(keys, fits)
		if at < 0 || slices.ContainsFunc(keys[at+1:], fits) {
			return nil
		}
		return v.Unused[at]
	}
	suggested := map[*Row]*File{}
	for _, row := range v.Missing {
		base := path.Base(strings.ReplaceAll(row.FileName, `\`, "/"))
		f := (*File)(nil)
		if name := letters(strings.TrimSuffix(base, path.Ext(base))); name != "" {
			f = only(func(key string) bool { return key == name })
		}
		if words := nameWords(row.Text.FullName); f == nil && len(words) > 1 {
			f = only(func(key string) bool {
				return key != "" && !slices.ContainsFunc(words, func(word string) bool { return !strings.Contains(key, word) })
			})
		}
		if f != nil {
			suggested[row] = f
		}
	}
	return suggested
}

// nameWords returns the parts of a name that have at least minWord letters and digits.
func nameWords(name string) []string {
	words := strings.FieldsFunc(name, func(r rune) bool { return unicode.IsSpace(r) || r == '-' || r == ',' || r == '.' })
	for i, word := range words {
		words[i] = letters(word)
	}
	return slices.DeleteFunc(words, func(word string) bool { return len([]rune(word)) < minWord })
}

// letters returns the letters and digits of a text in lower case and without accents.
func letters(text string) string {
	return strings.Map(func(r rune) rune {
		if unicode.IsLetter(r) || unicode.IsDigit(r) {
			return unicode.ToLower(r)
		}
		return -1
	}, norm.NFKD.String(text))
}
