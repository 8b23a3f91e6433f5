package vaulttest

import (
	"context"
	"image"
	"io"
)

// Thumbnail returns a black picture of a page in portrait format.
func (*Sealer) Thumbnail(_ context.Context, _ io.ReaderAt, _ int64, _, height int) (image.Image, error) {
	return image.NewGray(image.Rect(0, 0, height*7/10, height)), nil
}
