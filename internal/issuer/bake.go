package issuer

import (
	"bytes"
	"context"
	"encoding/base64"
	"fmt"
	"image"
	"image/color"
	"image/draw"
	"image/png"
	"math"
	"strings"

	"golang.org/x/image/vector"

	"github.com/certvault/certvault/internal/cert"
	"github.com/certvault/certvault/internal/colour"
	"github.com/certvault/certvault/internal/credential"
)

// bake returns a baked badge: the picture of the certificate's achievement with the credential in it. If
// there is no such picture, bake uses a seal in the institution's colour.
func (s *Service) bake(ctx context.Context, c *cert.Certificate, found *Credential, f Format) ([]byte, error) {
	a, err := s.assigned(ctx, c)
	if err != nil {
		return nil, err
	}
	var picture []byte
	if a != nil && a.Picture != "" {
		if picture, err = s.Picture(ctx, c.InstitutionID, a.UUID, a.Picture); err != nil {
			return nil, err
		}
	}
	profile, err := s.accounts.PublicProfile(ctx, c.InstitutionID)
	if err != nil {
		return nil, err
	}
	fill := sealColour
	if own, err := colour.Parse(profile.Colour); err == nil {
		fill = color.NRGBA{own.R, own.G, own.B, 0xff}
	}
	if f == FormatSVG {
		drawing := sealSVG(fill)
		if picture != nil {
			drawing = pictureSVG(picture)
		}
		return credential.BakeSVG(drawing, []byte(found.VC))
	}
	if picture == nil {
		if picture, err = sealPNG(fill); err != nil {
			return nil, err
		}
	}
	return credential.BakePNG(picture, []byte(found.VC))
}

// The seal is a disc with a wavy edge, a white ring and a white check mark. sealSide is in pixels.
// sealScallops is the number of waves, and sealSteps the number of points of a ring.
const (
	sealSide     = pictureSide
	sealScallops = 24
	sealSteps    = 360
)

var (
	// sealColour is the colour of the seal if the institution has no colour.
	sealColour = color.NRGBA{0x0b, 0x5d, 0x4b, 0xff}
	sealTick   = []point{{164, 262}, {190, 236}, {236, 282}, {326, 188}, {352, 214}, {236, 334}}
)

type point struct{ x, y float64 }

// ring returns the points of a line around the centre of the seal. Their distance from the centre is
// between radius-depth and radius+depth.
func ring(radius, depth float64) []point {
	list := make([]point, sealSteps)
	for i := range list {
		angle := 2 * math.Pi * float64(i) / sealSteps
		r := radius + depth*math.Cos(sealScallops*angle)
		list[i] = point{sealSide/2 + r*math.Cos(angle), sealSide/2 + r*math.Sin(angle)}
	}
	return list
}

// sealShape is an area of one colour.
type sealShape struct {
	points []point
	fill   color.NRGBA
}

func sealShapes(fill color.NRGBA) []sealShape {
	white := color.NRGBA{0xff, 0xff, 0xff, 0xff}
	return []sealShape{{ring(236, 10), fill}, {ring(198, 0), white}, {ring(190, 0), fill}, {sealTick, white}}
}

func sealPNG(fill color.NRGBA) ([]byte, error) {
	picture := image.NewNRGBA(image.Rect(0, 0, sealSide, sealSide))
	for _, shape := range sealShapes(fill) {
		r := vector.NewRasterizer(sealSide, sealSide)
		for i, p := range shape.points {
			if i == 0 {
				r.MoveTo(float32(p.x), float32(p.y))
			} else {
				r.LineTo(float32(p.x), float32(p.y))
			}
		}
		r.ClosePath()
		r.DrawOp = draw.Over
		r.Draw(picture, picture.Bounds(), image.NewUniform(shape.fill), image.Point{})
	}
	var b bytes.Buffer
	if err := png.Encode(&b, picture); err != nil {
		return nil, fmt.Errorf("drawing a seal: %w", err)
	}
	return b.Bytes(), nil
}

// svgStart is the start tag of an SVG drawing with the size of the seal.
const svgStart = `<svg xmlns="http://www.w3.org/2000/svg" xmlns:xlink="http://www.w3.org/1999/xlink" width="512" height="512" viewBox="0 0 512 512">`

func sealSVG(fill color.NRGBA) []byte {
	var b strings.Builder
	b.WriteString(svgStart)
	for _, shape := range sealShapes(fill) {
		fmt.Fprintf(&b, `<polygon fill="#%02x%02x%02x" points="`, shape.fill.R, shape.fill.G, shape.fill.B)
		for i, p := range shape.points {
			if i > 0 {
				b.WriteByte(' ')
			}
			fmt.Fprintf(&b, "%.1f,%.1f", p.x, p.y)
		}
		b.WriteString(`"/>`)
	}
	b.WriteString(`</svg>`)
	return []byte(b.String())
}

// pictureSVG returns an SVG drawing that contains a PNG picture.
func pictureSVG(picture []byte) []byte {
	return []byte(svgStart + `<image width="512" height="512" xlink:href="data:image/png;base64,` + base64.StdEncoding.EncodeToString(picture) + `"/></svg>`)
}
