package blob

import (
	"errors"
	"fmt"
	"strings"
	"testing"
)

// Put returns ErrFull while a reserve is still free. PutReserved uses this reserve to store the
// files of accepted certificates.
func TestSealingHasItsOwnReserve(t *testing.T) {
	t.Parallel()
	f, err := NewFolder(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	for _, test := range []struct {
		free          float64
		upload, seals bool
	}{{0.5, true, true}, {0.051, true, true}, {0.049, false, true}, {0.011, false, true}, {0.009, false, false}, {0, false, false}} {
		f.free = func() (float64, error) { return test.free, nil }
		key := fmt.Sprintf("a/%.0f", 1000*test.free)
		_, upload := f.Put(t.Context(), key+".original", strings.NewReader("x"))
		_, reserved := f.PutReserved(t.Context(), key+".verified", strings.NewReader("x"))
		check := f.CheckReserve(t.Context())
		for name, got := range map[string]struct {
			err  error
			want bool
		}{"Put": {upload, test.upload}, "PutReserved": {reserved, test.seals}, "CheckReserve": {check, test.seals}} {
			if got.want && got.err != nil || !got.want && !errors.Is(got.err, ErrFull) {
				t.Errorf("%s with %.1f %% free = %v, want success: %t", name, 100*test.free, got.err, got.want)
			}
		}
	}
	failure := errors.New("disk error")
	f.free = func() (float64, error) { return 0, failure }
	if err := f.CheckReserve(t.Context()); !errors.Is(err, failure) || errors.Is(err, ErrFull) {
		t.Errorf("CheckReserve = %v, want the error of the disk", err)
	}
}
