package identity

import "testing"

// TestOneTimePassword uses the test values of RFC 4226, appendix D.
func TestOneTimePassword(t *testing.T) {
	t.Parallel()
	for counter, want := range []string{
		"755224", "287082", "359152", "969429", "338314", "254676", "287922", "162583", "399871", "520489",
	} {
		if got := oneTimePassword([]byte("12345678901234567890"), int64(counter)); got != want {
			t.Errorf("counter %d: %s, want %s", counter, got, want)
		}
	}
}
