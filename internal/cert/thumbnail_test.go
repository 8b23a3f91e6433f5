package cert

import (
	"context"
	"errors"
	"image"
	"io"
	"testing"

	"github.com/certvault/certvault/internal/db/dbtest"
	"github.com/certvault/certvault/internal/pdfium"
)

// blindSealer is a fakeSealer without a renderer.
type blindSealer struct{ *fakeSealer }

func (blindSealer) Thumbnail(context.Context, io.ReaderAt, int64, int, int) (image.Image, error) {
	return nil, pdfium.ErrUnavailable
}

func TestThumbnailWithoutRenderer(t *testing.T) {
	t.Parallel()
	v := newVault(t, dbtest.Open(t, t.TempDir(), ""), func(c *Config) {
		fake, ok := c.Sealer.(*fakeSealer)
		if !ok {
			t.Fatalf("the sealer is a %T, want a *fakeSealer", c.Sealer)
		}
		c.Sealer = blindSealer{fake}
	})
	c := v.approved(v.upload(nil))
	if _, err := v.Thumbnail(t.Context(), c, 100, 100); !errors.Is(err, errNoPreview) {
		t.Errorf("Thumbnail: error = %v, want errNoPreview", err)
	}
}
