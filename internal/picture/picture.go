// Package picture decodes uploaded pictures and draws them as new PNG files, so that no byte of an uploaded
// file reaches a visitor. It does not process pictures in PDF files.
package picture

import (
	"bytes"
	"errors"
	"fmt"
	"image"
	_ "image/jpeg" // registers the JPEG decoder
	"image/png"

	"golang.org/x/image/draw"
)

// Limits are the limits of a file and of the drawn picture.
type Limits struct {
	// Bytes is the maximum size of the file.
	Bytes int
	// Width and Height are the maximum size of the drawn picture in pixels. A larger picture is scaled down.
	Width, Height int
}

// The maximum size of the uploaded picture, in pixels.
const (
	maxSide   = 4096
	maxPixels = 8 << 20
)

// ErrRefused is the error for a file or picture that is too large, and for a file that cannot be decoded.
var ErrRefused = errors.New("the picture cannot be used")

// Draw draws a PNG or JPEG file as a new PNG file. The error is ErrRefused if the file cannot be decoded, or
// if the file or its picture is too large.
func Draw(file []byte, l Limits) ([]byte, error) {
	if len(file) > l.Bytes {
		return nil, ErrRefused
	}
	head, _, err := image.DecodeConfig(bytes.NewReader(file))
	if err != nil || head.Width < 1 || head.Height < 1 || head.Width > maxSide || head.Height > maxSide || head.Width*head.Height > maxPixels {
		return nil, ErrRefused
	}
	given, _, err := image.Decode(bytes.NewReader(file))
	if err != nil {
		return nil, ErrRefused
	}
	scale := min(1, float64(l.Width)/float64(head.Width), float64(l.Height)/float64(head.Height))
	drawn := image.NewNRGBA(image.Rect(0, 0, max(1, int(scale*float64(head.Width))), max(1, int(scale*float64(head.Height)))))
	draw.CatmullRom.Scale(drawn, drawn.Bounds(), given, given.Bounds(), draw.Src, nil)
	var b bytes.Buffer
	if err := (&png.Encoder{CompressionLevel: png.BestCompression}).Encode(&b, drawn); err != nil {
		return nil, fmt.Errorf("drawing a picture: %w", err)
	}
	return b.Bytes(), nil
}
