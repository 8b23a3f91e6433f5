package app

import (
	"runtime/debug"
	"testing"
)

func TestVersion(t *testing.T) {
	t.Parallel()
	for stamped, want := range map[string]string{
		"v0.1.0":                             "v0.1.0",
		"v0.1.0+dirty":                       "v0.1.0 (modified)",
		"v0.2.0-rc.1":                        "v0.2.0-rc.1",
		"v0.0.0-20261122074500-0123456789ab": "commit 0123456789ab",
		"v0.0.0-20261122074500-0123456789ab+dirty":  "commit 0123456789ab (modified)",
		"v0.1.1-0.20261122074500-0123456789ab":      "commit 0123456789ab",
		"v0.2.0-rc.1.0.20261122074500-0123456789ab": "commit 0123456789ab",
		"(devel)": "(devel)",
		"":        "(unknown)",
	} {
		if got := versionOf(&debug.BuildInfo{Main: debug.Module{Version: stamped}}); got != want {
			t.Errorf("versionOf(%q) = %q, want %q", stamped, got, want)
		}
	}
}
