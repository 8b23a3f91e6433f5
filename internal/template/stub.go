package template

import (
	"context"
	"errors"
	"io"

	"github.com/certvault/certvault/internal/account"
	"github.com/certvault/certvault/internal/batch"
	"github.com/certvault/certvault/internal/cert"
	"github.com/certvault/certvault/internal/db"
	"github.com/certvault/certvault/internal/design"
	"github.com/certvault/certvault/internal/typeset"
)

var errLater = errors.New("not available yet")

type opened struct{}

func (s *Service) Create(ctx context.Context, n NewTemplate) (*Template, error) { return nil, errLater }
func (s *Service) Save(ctx context.Context, inst *account.Institution, uuid string, d Draft) (*Template, error) {
	return nil, errLater
}
func (s *Service) Publish(ctx context.Context, inst *account.Institution, uuid string, revision int64) (*Template, error) {
	return nil, errLater
}
func (s *Service) Archive(ctx context.Context, inst *account.Institution, uuid string) error {
	return errLater
}
func (s *Service) Unarchive(ctx context.Context, inst *account.Institution, uuid string) error {
	return errLater
}
func (s *Service) Duplicate(ctx context.Context, inst *account.Institution, uuid, name string) (*Template, error) {
	return nil, errLater
}

// DeleteDraft deletes the draft; a template without other versions is deleted, and then the result is nil.
func (s *Service) DeleteDraft(ctx context.Context, inst *account.Institution, uuid string) (*Template, error) {
	return nil, errLater
}
func (s *Service) Export(ctx context.Context, institutionID int64, uuid string, w io.Writer) error {
	return errLater
}
func (s *Service) Import(ctx context.Context, inst *account.Institution, name string, r io.Reader) (*Template, error) {
	return nil, errLater
}
func (s *Service) Page(ctx context.Context, institutionID int64, uuid string, page, side int) ([]byte, error) {
	return nil, errLater
}
func (s *Service) Shape(ctx context.Context, institutionID int64, uuid string, l *design.Layout, v design.Values) ([]design.Shaped, error) {
	return nil, errLater
}
func (s *Service) Picture(ctx context.Context, inst *account.Institution, uuid string, l *design.Layout, v design.Values, page, side int) ([]byte, error) {
	return nil, errLater
}
func (s *Service) Preview(ctx context.Context, inst *account.Institution, uuid string, e Entry) ([]byte, error) {
	return nil, errLater
}
func (s *Service) Fonts(ctx context.Context, institutionID int64) ([]*Font, error) {
	return nil, errLater
}
func (s *Service) AddFont(ctx context.Context, inst *account.Institution, fileName string, r io.Reader) (*Font, error) {
	return nil, errLater
}
func (s *Service) DeleteFont(ctx context.Context, inst *account.Institution, id string) error {
	return errLater
}
func (s *Service) Families(ctx context.Context, institutionID int64) ([]typeset.Family, error) {
	return nil, errLater
}

// AddPicture stores a PNG or JPEG and returns its id, for Field.Image.
func (s *Service) AddPicture(ctx context.Context, inst *account.Institution, r io.Reader) (string, error) {
	return "", errLater
}

// PictureFile returns the picture with an id, or the logo of the institution for "logo".
func (s *Service) PictureFile(ctx context.Context, institutionID int64, id string) ([]byte, error) {
	return nil, errLater
}
func (s *Service) Check(ctx context.Context, inst *account.Institution, uuid string, entries []Entry) ([]RowProblem, error) {
	return nil, errLater
}
func (s *Service) Issue(ctx context.Context, uuid string, i Issue) (*batch.Batch, error) {
	return nil, errLater
}
func (s *Service) Draw(ctx context.Context, c *cert.Certificate) (*cert.Drawn, error) {
	return nil, errLater
}
func ReferencedBlobs(ctx context.Context, d *db.DB, keys []string) ([]string, error) {
	return nil, nil
}
func BlobKeys(ctx context.Context, q db.Queryer, visit func(key string) error) error { return nil }
