package template

import (
	"context"
	"crypto/sha256"
	"database/sql"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"path"
	"slices"
	"strings"
	"unicode/utf8"

	"github.com/certvault/certvault/internal/account"
	"github.com/certvault/certvault/internal/audit"
	"github.com/certvault/certvault/internal/cert"
	"github.com/certvault/certvault/internal/db"
	"github.com/certvault/certvault/internal/fault"
	"github.com/certvault/certvault/internal/typeset"
)

const (
	// maxFonts is the maximum number of fonts of an institution.
	maxFonts    = 50
	maxFileName = 255
)

const fontColumns = `sha256, file_name, size, info, font_key, uploaded_by, created_at`

func scanFont(row scanner) (*Font, error) {
	f := &Font{}
	var digest []byte
	var info string
	var created int64
	if err := row.Scan(&digest, &f.FileName, &f.Size, &info, &f.key, &f.UploadedBy, &created); err != nil {
		return nil, err
	}
	f.ID, f.CreatedAt = hex.EncodeToString(digest), db.Time(created)
	if err := json.Unmarshal([]byte(info), &f.Info); err != nil {
		return nil, fmt.Errorf("reading a font: %w", err)
	}
	return f, nil
}

// Fonts returns the fonts of an institution that are not deleted, in the order of their families.
func (s *Service) Fonts(ctx context.Context, institutionID int64) ([]*Font, error) {
	list, err := s.fontsWhere(ctx, `institution_id = $1 AND deleted_at IS NULL`, institutionID)
	if err != nil {
		return nil, err
	}
	slices.SortStableFunc(list, func(a, b *Font) int {
		return strings.Compare(strings.ToLower(a.Info.Family), strings.ToLower(b.Info.Family))
	})
	return list, nil
}

func (s *Service) fontsWhere(ctx context.Context, where string, args ...any) ([]*Font, error) {
	rows, err := s.db.QueryContext(ctx, `SELECT `+fontColumns+` FROM institution_fonts WHERE `+where+` ORDER BY created_at, sha256`, args...)
	if err != nil {
		return nil, fmt.Errorf("listing fonts: %w", err)
	}
	list, err := db.Collect(rows, func(rows *sql.Rows) (*Font, error) { return scanFont(rows) })
	if err != nil {
		return nil, fmt.Errorf("listing fonts: %w", err)
	}
	return list, nil
}

// with returns the fonts of the vault and the uploaded fonts of list.
func (s *Service) with(list []*Font) (*typeset.Fonts, error) {
	if s.fonts == nil {
		return nil, errUnavailable
	}
	if len(list) == 0 {
		return s.fonts, nil
	}
	uploaded := make([]typeset.Uploaded, len(list))
	for i, f := range list {
		digest, err := hex.DecodeString(f.ID)
		if err != nil {
			return nil, fmt.Errorf("reading the digest of a font: %w", err)
		}
		uploaded[i] = typeset.Uploaded{
			SHA256: [sha256.Size]byte(digest), Size: f.Size, Info: f.Info,
			// Read may be called after the request has ended, so it does not use the context of the
			// request.
			Read: func() ([]byte, error) {
				file, err := s.load(context.Background(), f.key)
				if err != nil {
					return nil, err
				}
				return file, checkDigest(file, digest)
			},
		}
	}
	return s.fonts.With(uploaded...), nil
}

// institutionFonts returns the fonts that an institution can use: those of the vault, and its uploaded
// fonts that are not deleted. It also returns the digests of these uploaded fonts.
func (s *Service) institutionFonts(ctx context.Context, institutionID int64) (*typeset.Fonts, []string, error) {
	list, err := s.fontsWhere(ctx, `institution_id = $1 AND deleted_at IS NULL`, institutionID)
	if err != nil {
		return nil, nil, err
	}
	ids := make([]string, len(list))
	for i, f := range list {
		ids[i] = f.ID
	}
	fonts, err := s.with(list)
	return fonts, ids, err
}

// versionFonts returns the fonts with which a version was published, including fonts that were deleted
// later.
func (s *Service) versionFonts(ctx context.Context, v *Version) (*typeset.Fonts, error) {
	if len(v.fonts) == 0 {
		return s.with(nil)
	}
	list, err := s.fontsWhere(ctx, `institution_id = $1`, v.institutionID)
	if err != nil {
		return nil, err
	}
	list = slices.DeleteFunc(list, func(f *Font) bool { return !slices.Contains(v.fonts, f.ID) })
	if len(list) != len(v.fonts) {
		return nil, fmt.Errorf("the version %d has %d fonts, of which %d are stored", v.ID, len(v.fonts), len(list))
	}
	// If two fonts have equal faces, the last one in the list is used, so the order must not change.
	slices.SortFunc(list, func(a, b *Font) int { return slices.Index(v.fonts, a.ID) - slices.Index(v.fonts, b.ID) })
	return s.with(list)
}

// Families returns the families that an institution can use, those of its uploaded fonts first.
func (s *Service) Families(ctx context.Context, institutionID int64) ([]typeset.Family, error) {
	fonts, _, err := s.institutionFonts(ctx, institutionID)
	if err != nil {
		return nil, err
	}
	return fonts.Families(), nil
}

// AddFont stores a font file. The person who uploads it must have confirmed to the caller that the
// institution may use the font in documents. If the font is stored already, AddFont returns it. The error
// is fault.Invalid if the file cannot be used. If package typeset refused the font, the cause is a
// *typeset.FontError.
func (s *Service) AddFont(ctx context.Context, inst *account.Institution, fileName string, r io.Reader) (*Font, error) {
	file, err := readAll(r, typeset.MaxFontSize, "font", fmt.Sprintf("A font can have at most %d MB.", typeset.MaxFontSize>>20))
	if err != nil {
		return nil, err
	}
	info, err := typeset.Inspect(file)
	if refusal, ok := errors.AsType[*typeset.FontError](err); ok {
		return nil, &fault.Error{Kind: fault.Invalid, Fields: []fault.Field{{Name: "font", Messages: []string{sentence(refusal.Reason)}}}, Err: refusal}
	}
	if err != nil {
		return nil, fmt.Errorf("reading a font: %w", err)
	}
	digest := sha256.Sum256(file)
	about, err := json.Marshal(info)
	if err != nil {
		return nil, fmt.Errorf("encoding a font: %w", err)
	}
	restored, err := s.restoreFont(ctx, inst, digest)
	if err != nil {
		return nil, err
	}
	if !restored {
		key := cert.NewKey(inst.UUID, cert.FontKind)
		if err := s.store(ctx, key, file, func(tx *db.Tx) error {
			return s.insertFontTx(ctx, tx, inst, fontRow{digest: digest, name: cleanFileName(fileName), size: len(file), info: string(about), family: info.Family, key: key})
		}); err != nil {
			return nil, fmt.Errorf("storing a font: %w", err)
		}
	}
	f, err := scanFont(s.db.QueryRowContext(ctx, `SELECT `+fontColumns+` FROM institution_fonts WHERE institution_id = $1 AND sha256 = $2`, inst.ID, digest[:]))
	if err != nil {
		return nil, fmt.Errorf("reading a font: %w", err)
	}
	return f, nil
}

// restoreFont reports whether a font is stored already. If the font was deleted, restoreFont makes it
// available again.
func (s *Service) restoreFont(ctx context.Context, inst *account.Institution, digest [sha256.Size]byte) (stored bool, err error) {
	err = s.db.Tx(ctx, func(tx *db.Tx) error {
		var deleted sql.NullInt64
		var info string
		err := tx.QueryRowContext(ctx, `SELECT deleted_at, info FROM institution_fonts WHERE institution_id = $1 AND sha256 = $2`, inst.ID, digest[:]).Scan(&deleted, &info)
		if errors.Is(err, sql.ErrNoRows) {
			return nil
		}
		if stored = true; err != nil || !deleted.Valid {
			return err
		}
		if err := checkFontCountTx(ctx, tx, inst.ID); err != nil {
			return err
		}
		if _, err := tx.ExecContext(ctx, `UPDATE institution_fonts SET deleted_at = NULL WHERE institution_id = $1 AND sha256 = $2`, inst.ID, digest[:]); err != nil {
			return err
		}
		var about typeset.Info
		if err := json.Unmarshal([]byte(info), &about); err != nil {
			return fmt.Errorf("reading a font: %w", err)
		}
		return s.recordFontTx(ctx, tx, audit.FontAdded, inst.ID, hex.EncodeToString(digest[:]), about.Family)
	})
	if err != nil {
		return false, fmt.Errorf("looking for a font: %w", err)
	}
	return stored, nil
}

// fontRow has the values of a new row of institution_fonts.
type fontRow struct {
	digest          [sha256.Size]byte
	name, info, key string
	family          string
	size            int
}

func (s *Service) insertFontTx(ctx context.Context, tx *db.Tx, inst *account.Institution, f fontRow) error {
	if err := checkFontCountTx(ctx, tx, inst.ID); err != nil {
		return err
	}
	if _, err := tx.ExecContext(ctx, `
		INSERT INTO institution_fonts (institution_id, sha256, file_name, size, info, font_key, uploaded_by, created_at) VALUES ($1, $2, $3, $4, $5, $6, $7, $8)`,
		inst.ID, f.digest[:], f.name, f.size, f.info, f.key, audit.ActorOf(ctx).Name, db.Micros(s.moment())); err != nil {
		if db.IsUnique(err) {
			return fault.Wrap(fault.Conflict, "The same font is being uploaded by another request. Try again in a moment.", err)
		}
		return err
	}
	return s.recordFontTx(ctx, tx, audit.FontAdded, inst.ID, hex.EncodeToString(f.digest[:]), f.family)
}

// checkFontCountTx returns fault.BadRequest if an institution has maxFonts fonts or more.
func checkFontCountTx(ctx context.Context, tx *db.Tx, institutionID int64) error {
	var n int
	if err := tx.QueryRowContext(ctx, `SELECT count(*) FROM institution_fonts WHERE institution_id = $1 AND deleted_at IS NULL`, institutionID).Scan(&n); err != nil {
		return err
	}
	if n >= maxFonts {
		return fault.New(fault.BadRequest, fmt.Sprintf("An institution can have at most %d fonts. Delete fonts that are not needed.", maxFonts))
	}
	return nil
}

func (s *Service) recordFontTx(ctx context.Context, tx *db.Tx, action audit.Action, institutionID int64, id, family string) error {
	return audit.RecordTx(ctx, tx, audit.Entry{
		InstitutionID: institutionID, At: s.moment(), Action: action, Subject: audit.Subject{Type: "font", ID: id, Name: family},
	})
}

// DeleteFont deletes a font. Versions that were published with the font keep it. The error is
// fault.NotFound if there is no such font.
func (s *Service) DeleteFont(ctx context.Context, inst *account.Institution, id string) error {
	digest, err := hex.DecodeString(id)
	if err != nil {
		return errNoFont
	}
	err = s.db.Tx(ctx, func(tx *db.Tx) error {
		// This statement locks the font, as Publish does. Therefore fontUsedTx sees each version that
		// was published with the font. A Publish that waits for the lock fails if the row of the font is
		// deleted.
		f, err := scanFont(tx.QueryRowContext(ctx, `
			UPDATE institution_fonts SET size = size WHERE institution_id = $1 AND sha256 = $2 AND deleted_at IS NULL RETURNING `+fontColumns, inst.ID, digest))
		if errors.Is(err, sql.ErrNoRows) {
			return errNoFont
		}
		if err != nil {
			return err
		}
		used, err := fontUsedTx(ctx, tx, inst.ID, f.ID)
		if err != nil {
			return err
		}
		if used {
			_, err = tx.ExecContext(ctx, `UPDATE institution_fonts SET deleted_at = $1 WHERE institution_id = $2 AND sha256 = $3`, db.Micros(s.moment()), inst.ID, digest)
		} else {
			_, err = tx.ExecContext(ctx, `DELETE FROM institution_fonts WHERE institution_id = $1 AND sha256 = $2`, inst.ID, digest)
		}
		if err != nil {
			return err
		}
		return s.recordFontTx(ctx, tx, audit.FontDeleted, inst.ID, f.ID, f.Info.Family)
	})
	if err != nil {
		return fmt.Errorf("deleting a font: %w", err)
	}
	return nil
}

// fontUsedTx reports whether a version was published with a font.
func fontUsedTx(ctx context.Context, tx *db.Tx, institutionID int64, id string) (used bool, err error) {
	// id is hexadecimal, so it has no character that LIKE treats specially.
	err = tx.QueryRowContext(ctx, `SELECT EXISTS (SELECT 1 FROM template_versions WHERE institution_id = $1 AND fonts LIKE $2)`, institutionID, `%"`+id+`"%`).Scan(&used)
	return used, err
}

// checkFontsTx returns fault.Conflict unless all fonts are stored. It locks their rows, so that none of
// them is deleted before the transaction ends.
func checkFontsTx(ctx context.Context, tx *db.Tx, institutionID int64, ids []string) error {
	for _, id := range ids {
		digest, err := hex.DecodeString(id)
		if err != nil {
			return fmt.Errorf("reading the digest of a font: %w", err)
		}
		changed, err := tx.ExecContext(ctx, `UPDATE institution_fonts SET size = size WHERE institution_id = $1 AND sha256 = $2`, institutionID, digest)
		if err != nil {
			return err
		}
		if n, err := changed.RowsAffected(); err != nil || n == 0 {
			return errors.Join(err, fault.New(fault.Conflict, "A font was deleted in the meantime. Publish the template again."))
		}
	}
	return nil
}

// sentence returns a text with a capital letter at the beginning and a period at the end.
func sentence(text string) string {
	r, n := utf8.DecodeRuneInString(text)
	return strings.TrimSuffix(strings.ToUpper(string(r))+text[n:], ".") + "."
}

// cleanFileName returns the last element of a path without control characters, cut to its last maxFileName
// characters.
func cleanFileName(name string) string {
	name = strings.Map(func(r rune) rune {
		if isControl(r) || r == utf8.RuneError {
			return -1
		}
		return r
	}, path.Base(strings.ReplaceAll(strings.ToValidUTF8(name, ""), `\`, "/")))
	runes := []rune(name)
	return string(runes[max(0, len(runes)-maxFileName):])
}
