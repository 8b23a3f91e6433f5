package issuer

import (
	"context"
	"crypto/sha256"
	"database/sql"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"net/url"
	"slices"
	"strings"
	"time"

	"github.com/google/uuid"

	"github.com/certvault/certvault/internal/account"
	"github.com/certvault/certvault/internal/audit"
	"github.com/certvault/certvault/internal/cert"
	"github.com/certvault/certvault/internal/credential"
	"github.com/certvault/certvault/internal/db"
	"github.com/certvault/certvault/internal/fault"
	"github.com/certvault/certvault/internal/picture"
)

const (
	maxTitle       = 255
	maxDescription = 2000
	maxCriteria    = 4000
	maxURL         = 500
	maxSkill       = 100
	maxSkills      = 50
	// maxAchievements is the maximum number of achievements of an institution.
	maxAchievements = 1000
	// maxPictureFile is the maximum size of the file of a picture in bytes, and pictureSide the maximum
	// width and height of the stored picture.
	maxPictureFile = 2 << 20
	pictureSide    = 512
)

// Achievement is the description, criteria, skills and picture in the credentials of certificates with
// one title, or of one template.
type Achievement struct {
	UUID string
	// Title is the title of the certificates. An institution has at most one achievement for each title.
	Title       string
	Description string
	// Criteria is a text, and CriteriaURL the address of a page. At least one of them is not empty.
	Criteria, CriteriaURL string
	Skills                []string
	// Template, if not nil, is a template whose certificates all have the achievement. Their titles may
	// differ from Title. A template has at most one achievement.
	Template *AchievementTemplate
	// Picture is the SHA-256 of the picture in hexadecimal, or "".
	Picture   string
	UpdatedAt time.Time
}

// AchievementTemplate is the template of an achievement.
type AchievementTemplate struct{ UUID, Name string }

// ErrNoAchievement is the error for an unknown achievement.
var ErrNoAchievement = fault.New(fault.NotFound, "There is no such achievement.")

// achievementQuery reads achievements. Callers append further conditions and the order.
const achievementQuery = `
	SELECT a.uuid, a.title, a.description, a.criteria, a.criteria_url, a.skills, a.picture_sha256, a.updated_at, coalesce(t.uuid, ''), coalesce(t.name, '')
	FROM achievements a LEFT JOIN templates t ON t.id = a.template_id WHERE a.institution_id = $1 `

func scanAchievement(row interface{ Scan(dest ...any) error }) (*Achievement, error) {
	var a Achievement
	var t AchievementTemplate
	var skills string
	var picture []byte
	var updated int64
	if err := row.Scan(&a.UUID, &a.Title, &a.Description, &a.Criteria, &a.CriteriaURL, &skills, &picture, &updated, &t.UUID, &t.Name); err != nil {
		return nil, err
	}
	a.Picture, a.UpdatedAt = hex.EncodeToString(picture), db.Time(updated)
	if t.UUID != "" {
		a.Template = &t
	}
	if err := json.Unmarshal([]byte(skills), &a.Skills); err != nil {
		return nil, fmt.Errorf("reading the skills of an achievement: %w", err)
	}
	return &a, nil
}

// Achievements returns the achievements of an institution, ordered by title.
func (s *Service) Achievements(ctx context.Context, institutionID int64) ([]*Achievement, error) {
	rows, err := s.db.QueryContext(ctx, achievementQuery+`ORDER BY a.title`, institutionID)
	if err != nil {
		return nil, fmt.Errorf("reading achievements: %w", err)
	}
	list, err := db.Collect(rows, func(rows *sql.Rows) (*Achievement, error) { return scanAchievement(rows) })
	if err != nil {
		return nil, fmt.Errorf("reading achievements: %w", err)
	}
	return list, nil
}

// Achievement returns an achievement of an institution, or ErrNoAchievement.
func (s *Service) Achievement(ctx context.Context, institutionID int64, id string) (*Achievement, error) {
	a, err := scanAchievement(s.db.QueryRowContext(ctx, achievementQuery+`AND a.uuid = $2`, institutionID, id))
	if noRows(err) {
		return nil, ErrNoAchievement
	}
	if err != nil {
		return nil, fmt.Errorf("reading an achievement: %w", err)
	}
	return a, nil
}

// Picture returns the picture of an achievement as PNG. The error is ErrNoAchievement if the institution
// does not have the achievement, or if the picture does not have the digest.
func (s *Service) Picture(ctx context.Context, institutionID int64, id, digest string) ([]byte, error) {
	sum, err := hex.DecodeString(digest)
	if err != nil || len(sum) != sha256.Size {
		return nil, ErrNoAchievement
	}
	var content []byte
	err = s.db.QueryRowContext(ctx, `SELECT picture FROM achievements WHERE institution_id = $1 AND uuid = $2 AND picture_sha256 = $3`, institutionID, id, sum).Scan(&content)
	if noRows(err) {
		return nil, ErrNoAchievement
	}
	if err != nil {
		return nil, fmt.Errorf("reading the picture of an achievement: %w", err)
	}
	return content, nil
}

// AchievementInput is an achievement to store.
type AchievementInput struct {
	Title, Description, Criteria, CriteriaURL string
	// Skills are separated by line breaks.
	Skills string
	// Template is the UUID of a template, or "".
	Template string
	// Picture is a PNG or JPEG file, or nil. RemovePicture removes the stored picture.
	Picture       []byte
	RemovePicture bool
}

// check trims the texts, returns the skills, and adds problems to bad. The messages are codes, which the
// caller converts to text.
func (in *AchievementInput) check(bad *fault.Fields) (skills []string) {
	for _, f := range []struct {
		name     string
		text     *string
		limit    int
		required bool
	}{
		{"title", &in.Title, maxTitle, true}, {"description", &in.Description, maxDescription, true},
		{"criteria", &in.Criteria, maxCriteria, false}, {"criteria_url", &in.CriteriaURL, maxURL, false},
	} {
		*f.text = strings.TrimSpace(*f.text)
		switch {
		case f.required && *f.text == "":
			bad.Add(f.name, "required")
		case len([]rune(*f.text)) > f.limit || !account.CleanText(*f.text):
			bad.Add(f.name, "text")
		}
	}
	if in.CriteriaURL != "" {
		if u, err := url.Parse(in.CriteriaURL); err != nil || u.Scheme != "https" || u.Host == "" || u.User != nil {
			bad.Add("criteria_url", "url")
		}
	}
	if in.Criteria == "" && in.CriteriaURL == "" {
		bad.Add("criteria", "required")
	}
	skills = []string{}
	for line := range strings.Lines(in.Skills) {
		if line = strings.TrimSpace(line); line != "" && !slices.Contains(skills, line) {
			skills = append(skills, line)
		}
	}
	if len(skills) > maxSkills || slices.ContainsFunc(skills, func(s string) bool { return len([]rune(s)) > maxSkill || !account.CleanText(s) }) {
		bad.Add("skills", "skills")
	}
	return skills
}

// SaveAchievement creates an achievement of an institution if id is "". Otherwise it changes the
// achievement with this id. Existing credentials do not change. The error is fault.Invalid, with a code
// as the message of each field, or ErrNoAchievement.
func (s *Service) SaveAchievement(ctx context.Context, institutionID int64, id string, in AchievementInput) (*Achievement, error) {
	var bad fault.Fields
	skills := in.check(&bad)
	var drawn []byte
	var sum any
	if in.Picture != nil {
		var err error
		drawn, err = picture.Draw(in.Picture, picture.Limits{Bytes: maxPictureFile, Width: pictureSide, Height: pictureSide})
		switch {
		case errors.Is(err, picture.ErrRefused):
			bad.Add("picture", "picture")
		case err != nil:
			return nil, err
		}
		digest := sha256.Sum256(drawn)
		sum = digest[:]
	}
	if err := bad.Err(); err != nil {
		return nil, err
	}
	list, err := json.Marshal(skills)
	if err != nil {
		return nil, fmt.Errorf("encoding the skills of an achievement: %w", err)
	}
	now, action := db.Micros(s.now()), audit.AchievementChanged
	err = s.db.Tx(ctx, func(tx *db.Tx) error {
		template, err := templateTx(ctx, tx, institutionID, in.Template)
		if err != nil {
			return err
		}
		if id == "" {
			action = audit.AchievementCreated
			var n int
			if err := tx.QueryRowContext(ctx, `SELECT count(*) FROM achievements WHERE institution_id = $1`, institutionID).Scan(&n); err != nil {
				return err
			}
			if n >= maxAchievements {
				return fault.OfField("title", "many")
			}
			id = uuid.NewString()
			if _, err := tx.ExecContext(ctx, `
				INSERT INTO achievements (uuid, institution_id, title, description, criteria, criteria_url, skills, picture, picture_sha256, template_id, created_at, updated_at)
				VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $11)`,
				id, institutionID, in.Title, in.Description, in.Criteria, in.CriteriaURL, string(list), drawn, sum, template, now); err != nil {
				return err
			}
		} else {
			r, err := tx.ExecContext(ctx, `
				UPDATE achievements SET title = $1, description = $2, criteria = $3, criteria_url = $4, skills = $5, template_id = $6, updated_at = $7
				WHERE institution_id = $8 AND uuid = $9`,
				in.Title, in.Description, in.Criteria, in.CriteriaURL, string(list), template, now, institutionID, id)
			if err != nil {
				return err
			}
			if n, err := r.RowsAffected(); err != nil || n == 0 {
				return errors.Join(err, ErrNoAchievement)
			}
			if drawn != nil || in.RemovePicture {
				if _, err := tx.ExecContext(ctx, `UPDATE achievements SET picture = $1, picture_sha256 = $2 WHERE uuid = $3`, drawn, sum, id); err != nil {
					return err
				}
			}
		}
		return recordAchievementTx(ctx, tx, action, s.now(), institutionID, id, in.Title)
	})
	if db.UniqueOn(err, "achievements", "template_id") {
		return nil, fault.OfField("template", "template_taken")
	}
	if db.IsUnique(err) {
		return nil, fault.OfField("title", "taken")
	}
	if err != nil {
		return nil, fmt.Errorf("storing an achievement: %w", err)
	}
	return s.Achievement(ctx, institutionID, id)
}

// templateTx returns the id of a template of an institution, or null for "".
func templateTx(ctx context.Context, tx *db.Tx, institutionID int64, uuid string) (id sql.NullInt64, err error) {
	if uuid == "" {
		return id, nil
	}
	err = tx.QueryRowContext(ctx, `SELECT id FROM templates WHERE institution_id = $1 AND uuid = $2`, institutionID, uuid).Scan(&id)
	if noRows(err) {
		return id, fault.OfField("template", "template")
	}
	if err != nil {
		return id, fmt.Errorf("reading the template of an achievement: %w", err)
	}
	return id, nil
}

// DeleteAchievement deletes an achievement. Existing credentials do not change, but their picture can no
// longer be loaded. The error is ErrNoAchievement if the achievement does not exist.
func (s *Service) DeleteAchievement(ctx context.Context, institutionID int64, id string) error {
	return s.db.Tx(ctx, func(tx *db.Tx) error {
		var title string
		err := tx.QueryRowContext(ctx, `DELETE FROM achievements WHERE institution_id = $1 AND uuid = $2 RETURNING title`, institutionID, id).Scan(&title)
		if noRows(err) {
			return ErrNoAchievement
		}
		if err != nil {
			return fmt.Errorf("deleting an achievement: %w", err)
		}
		return recordAchievementTx(ctx, tx, audit.AchievementDeleted, s.now(), institutionID, id, title)
	})
}

func recordAchievementTx(ctx context.Context, tx *db.Tx, action audit.Action, at time.Time, institutionID int64, id, title string) error {
	return audit.RecordTx(ctx, tx, audit.Entry{
		InstitutionID: institutionID, At: at, Action: action, Subject: audit.Subject{Type: "achievement", ID: id, Name: title},
	})
}

// pictureURL returns the address of the picture of an achievement, or "".
func (s *Service) pictureURL(institution string, a *Achievement) string {
	if a == nil || a.Picture == "" {
		return ""
	}
	return s.base + PicturePath(institution, a)
}

// PicturePath returns the path of the picture of an achievement.
func PicturePath(institution string, a *Achievement) string {
	return InstitutionsPath + institution + "/achievements/" + a.UUID + "/" + a.Picture + ".png"
}

// assigned returns the achievement of the template of a certificate. If there is none, assigned returns
// the achievement with the title of the certificate, or nil.
func (s *Service) assigned(ctx context.Context, c *cert.Certificate) (*Achievement, error) {
	var version int64
	if c.Template != nil {
		version = c.Template.VersionID
	}
	a, err := scanAchievement(s.db.QueryRowContext(ctx, achievementQuery+`
		AND (a.title = $2 OR a.template_id = (SELECT template_id FROM template_versions WHERE id = $3 AND institution_id = $1))
		ORDER BY CASE WHEN a.template_id = (SELECT template_id FROM template_versions WHERE id = $3 AND institution_id = $1) THEN 0 ELSE 1 END LIMIT 1`,
		c.InstitutionID, c.Title, version))
	if noRows(err) {
		return nil, nil //nolint:nilnil // nil means that there is none
	}
	if err != nil {
		return nil, fmt.Errorf("reading an achievement: %w", err)
	}
	return a, nil
}

// achievementOf returns the achievement in the credential of a certificate. If assigned returns nil,
// achievementOf creates an achievement from the title, in the language of the institution's mail.
func (s *Service) achievementOf(ctx context.Context, i *account.Institution, c *cert.Certificate) (credential.Achievement, error) {
	a, err := s.assigned(ctx, c)
	if err != nil {
		return credential.Achievement{}, err
	}
	if a == nil {
		settings, err := account.ReadSettings(ctx, s.db, i.ID)
		if err != nil {
			return credential.Achievement{}, err
		}
		say, failed := s.catalog.FirstOf(settings.MailLanguage).Texts("credential.")
		out := credential.Achievement{
			// The id is the same for all certificates of an institution with this title (RFC 9562, 5.5).
			ID:   "urn:uuid:" + uuid.NewSHA1(uuid.NameSpaceURL, []byte(s.ID(i.UUID)+"\n"+c.Title)).String(),
			Name: c.Title, Description: say("description", "title", c.Title, "institution", settings.Name), Criteria: say("criteria", "institution", settings.Name),
		}
		return out, failed()
	}
	out := credential.Achievement{
		ID: "urn:uuid:" + a.UUID, Name: a.Title, Description: a.Description, Criteria: a.Criteria, CriteriaURL: a.CriteriaURL, Image: s.pictureURL(i.UUID, a),
	}
	for _, name := range a.Skills {
		out.Skills = append(out.Skills, credential.Skill{Name: name})
	}
	return out, nil
}
