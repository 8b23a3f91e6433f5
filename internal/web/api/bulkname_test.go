package api

import (
	"strings"
	"testing"
)

func TestShortenKeepsCharacters(t *testing.T) {
	t.Parallel()
	for prefix := range 6 {
		s := strings.Repeat("a", prefix) + strings.Repeat("ก", maxNameShown)
		got := shorten(s)
		if !strings.HasPrefix(s, got) || len(got) > maxNameShown || len(got) < maxNameShown-2 {
			t.Errorf("shorten with %d letters before = %q, want the characters in the first %d bytes", prefix, got, maxNameShown)
		}
	}
	if got, want := shorten("a\xff"), "a\uFFFD"; got != want {
		t.Errorf("shorten of invalid UTF-8 = %q, want %q", got, want)
	}
}
