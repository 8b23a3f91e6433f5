package design

import (
	"bytes"
	"compress/zlib"
	"encoding/binary"
	"testing"
)

// TestProfiles checks that only complete ICC profiles of a permitted size are used.
func TestProfiles(t *testing.T) {
	t.Parallel()
	part := func(number, count byte, size int) []byte {
		body := append([]byte("ICC_PROFILE\x00"), number, count)
		body = append(body, bytes.Repeat([]byte{number}, size)...)
		return append(binary.BigEndian.AppendUint16([]byte{0xFF, app2}, uint16(len(body)+2)), body...)
	}
	large := make([][]byte, 0, 80)
	for i := range byte(80) {
		large = append(large, part(i+1, 80, 60_000))
	}
	for name, c := range map[string]struct {
		parts [][]byte
		want  int
	}{
		"none":      {nil, 0},
		"one part":  {[][]byte{part(1, 1, 500)}, 500},
		"two parts": {[][]byte{part(2, 2, 20), part(1, 2, 500)}, 520},
		"no last":   {[][]byte{part(1, 2, 500)}, 0},
		"no first":  {[][]byte{part(2, 2, 500)}, 0},
		"too large": {large, 0},
	} {
		file := append([]byte{0xFF, 0xD8}, bytes.Join(c.parts, nil)...)
		if got := jpegMetadata(append(file, 0xFF, 0xDA, 0, 2)).profile; len(got) != c.want {
			t.Errorf("JPEG, %s: the profile has %d bytes, want %d", name, len(got), c.want)
		}
	}
	for size, want := range map[int]int{500: 500, maxProfile: maxProfile, maxProfile + 1: 0} {
		var b bytes.Buffer
		b.WriteString("iCCPname\x00\x00")
		z := zlib.NewWriter(&b)
		if _, err := z.Write(make([]byte, size)); err != nil {
			t.Fatal(err)
		}
		if err := z.Close(); err != nil {
			t.Fatal(err)
		}
		file := binary.BigEndian.AppendUint32(make([]byte, 8), uint32(b.Len()-4))
		file = append(append(file, b.Bytes()...), 0, 0, 0, 0)
		if got := pngMetadata(file).profile; len(got) != want {
			t.Errorf("PNG with a profile of %d bytes: the profile has %d bytes, want %d", size, len(got), want)
		}
	}
}
