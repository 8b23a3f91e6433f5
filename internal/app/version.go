package app

import (
	"regexp"
	"runtime/debug"
	"strings"
)

// Version returns the tag of the commit from which this binary was built, or the hash if the commit has
// no tag. It adds " (modified)" if the files differed from the commit.
func Version() string {
	info, ok := debug.ReadBuildInfo()
	if !ok {
		return "(unknown)"
	}
	return versionOf(info)
}

// pseudo matches the end of the pseudo-version of a commit without a tag, for example
// v0.1.1-0.20261122074500-0123456789ab (Go Modules Reference, Pseudo-versions).
var pseudo = regexp.MustCompile(`[-.]\d{14}-([0-9a-f]{12})$`)

func versionOf(info *debug.BuildInfo) string {
	version, dirty := strings.CutSuffix(info.Main.Version, "+dirty")
	if m := pseudo.FindStringSubmatch(version); m != nil {
		version = "commit " + m[1]
	}
	if version == "" {
		version = "(unknown)"
	}
	if dirty {
		version += " (modified)"
	}
	return version
}
