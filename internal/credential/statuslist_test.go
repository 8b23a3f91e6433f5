package credential

import (
	"bytes"
	"compress/gzip"
	"errors"
	"testing"
)

func TestBitstring(t *testing.T) {
	t.Parallel()
	set := []int{0, 7, 8, 94567, StatusListSize - 1}
	b, err := NewBitstring(set...)
	if err != nil {
		t.Fatal(err)
	}
	if b[0] != 0x81 || b[1] != 0x80 {
		t.Errorf("the first bytes are %x, want 81 80: entry 0 is the most significant bit", b[:2])
	}
	encoded, err := b.encode()
	if err != nil {
		t.Fatal(err)
	}
	decoded, err := decodeBitstring(encoded)
	if err != nil {
		t.Fatal(err)
	}
	want := map[int]bool{}
	for _, i := range set {
		want[i] = true
	}
	for i := range StatusListSize {
		if got, err := decoded.Get(i); err != nil || got != want[i] {
			t.Fatalf("Get(%d) = %v, %v; want %v", i, got, err, want[i])
		}
	}
	for _, i := range []int{-1, StatusListSize} {
		if _, err := decoded.Get(i); !errors.Is(err, errStatusList) {
			t.Errorf("Get(%d): error %v, want errStatusList", i, err)
		}
		if _, err := NewBitstring(i); err == nil {
			t.Errorf("NewBitstring(%d) returned no error", i)
		}
	}
}

// TestDecodeExample decodes the example of the specification, in which no entry is set (BSL, 2.2).
func TestDecodeExample(t *testing.T) {
	t.Parallel()
	b, err := decodeBitstring("uH4sIAAAAAAAAA-3BMQEAAADCoPVPbQwfoAAAAAAAAAAAAAAAAAAAAIC3AYbSVKsAQAAA")
	if err != nil || len(b) != StatusListSize/8 || bytes.ContainsFunc(b, func(r rune) bool { return r != 0 }) {
		t.Errorf("the example has %d bytes, error %v, want %d zero bytes", len(b), err, StatusListSize/8)
	}
}

func gzipped(t testing.TB, size int) string {
	t.Helper()
	var z bytes.Buffer
	w := gzip.NewWriter(&z)
	chunk := make([]byte, 1<<20)
	for size > 0 {
		n := min(size, len(chunk))
		if _, err := w.Write(chunk[:n]); err != nil {
			t.Fatal(err)
		}
		size -= n
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	return "u" + base64url(z.Bytes())
}

func TestDecodeHostileLists(t *testing.T) {
	t.Parallel()
	for name, encoded := range map[string]string{
		"bomb":       gzipped(t, 2<<20),
		"too short":  gzipped(t, StatusListSize/8-1),
		"no prefix":  gzipped(t, StatusListSize/8)[1:],
		"not base64": "u***",
		"not GZIP":   "uAAAA",
		"cut off":    gzipped(t, StatusListSize/8)[:40],
		"empty":      "",
	} {
		if _, err := decodeBitstring(encoded); !errors.Is(err, errStatusList) {
			t.Errorf("%s: error %v, want errStatusList", name, err)
		}
	}
}
