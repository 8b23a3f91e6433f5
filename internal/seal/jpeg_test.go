package seal

import (
	"bytes"
	"encoding/binary"
	"image"
	"image/jpeg"
	"io"
	"testing"
)

func sampleJPEG(t testing.TB, w, h int) []byte {
	t.Helper()
	var b bytes.Buffer
	if err := jpeg.Encode(&b, image.NewYCbCr(image.Rect(0, 0, w, h), image.YCbCrSubsampleRatio420), nil); err != nil {
		t.Fatal(err)
	}
	return b.Bytes()
}

// withSegment inserts a marker segment after SOI.
func withSegment(data []byte, marker byte, body string) []byte {
	out := append([]byte{}, data[:2]...)
	out = append(out, 0xFF, marker)
	out = binary.BigEndian.AppendUint16(out, uint16(len(body)+2))
	out = append(out, body...)
	return append(out, data[2:]...)
}

func TestJPEGIsCopiedWithoutMetadata(t *testing.T) {
	t.Parallel()
	plain := sampleJPEG(t, 40, 30)
	exif := "Exif\x00\x00MM\x00*\x00\x00\x00\x08\x00\x01\x01\x12\x00\x03\x00\x00\x00\x01\x00\x06\x00\x00\x00\x00\x00\x00"
	data := withSegment(plain, markerAPP1, exif)
	data = withSegment(data, 0xED, "Photoshop 3.0\x00secret")
	data = withSegment(data, markerCOM, "secret")
	data = append(data, "PK\x03\x04 secret"...)
	img, err := readJPEG(bytes.NewReader(data), int64(len(data)))
	if err != nil {
		t.Fatal(err)
	}
	if img.exif.orientation != 6 {
		t.Errorf("orientation = %d, want 6", img.exif.orientation)
	}
	if img.end == int64(len(data)) {
		t.Error("end = end of the file, want the end of the image")
	}
	body, n := img.body(bytes.NewReader(data))
	got, err := io.ReadAll(body)
	if err != nil {
		t.Fatal(err)
	}
	if !bytes.Equal(got, plain) || n != int64(len(plain)) {
		t.Errorf("body has %d bytes and the length %d, want the %d bytes of the image without metadata", len(got), n, len(plain))
	}
}

func TestJPEGIsRefused(t *testing.T) {
	t.Parallel()
	plain := sampleJPEG(t, 40, 30)
	frame := bytes.Index(plain, []byte{0xFF, 0xC0})
	variant := func(change func(b []byte)) []byte {
		b := bytes.Clone(plain)
		change(b)
		return b
	}
	for _, c := range []struct {
		name, code string
		data       []byte
	}{
		{"truncated", "truncated", plain[:len(plain)-2]},
		{"start marker only", "truncated", plain[:2]},
		{"end without an image", "damaged", []byte{0xFF, 0xD8, 0xFF, 0xD9}},
		{"arithmetic coding", "unsupported_coding", variant(func(b []byte) { b[frame+1] = 0xC9 })},
		{"lossless", "unsupported_coding", variant(func(b []byte) { b[frame+1] = 0xC3 })},
		{"12 bits", "unsupported_coding", variant(func(b []byte) { b[frame+4] = 12 })},
		{"too many pixels", "too_many_pixels", variant(func(b []byte) { copy(b[frame+5:], "\xFF\xFF\xFF\xFF") })},
		{"height 0", "damaged", variant(func(b []byte) { copy(b[frame+5:], "\x00\x00") })},
	} {
		_, err := readJPEG(bytes.NewReader(c.data), int64(len(c.data)))
		if r := mustRefuse(t, err); r.Code != c.code {
			t.Errorf("%s: code = %q, want %q", c.name, r.Code, c.code)
		}
	}
}

func FuzzJPEG(f *testing.F) {
	f.Add(sampleJPEG(f, 9, 7))
	f.Add(withSegment(sampleJPEG(f, 9, 7), markerAPP1, "Exif\x00\x00MM\x00*\x00\x00\x00\x08\x00\x01\x01\x12\x00\x03\x00\x00\x00\x01\x00\x06\x00\x00"))
	f.Add(withSegment(sampleJPEG(f, 9, 7), markerAPP2, "ICC_PROFILE\x00\x01\x01"))
	f.Fuzz(func(t *testing.T, data []byte) {
		o := Original{Name: "a.jpg", Type: JPEG, R: bytes.NewReader(data), Size: int64(len(data))}
		p, err := newPicture(t.Context(), o)
		if err != nil {
			mustRefuse(t, err)
			return
		}
		var out bytes.Buffer
		if err := p.writeTo(&out); err != nil {
			t.Fatal(err)
		}
	})
}
