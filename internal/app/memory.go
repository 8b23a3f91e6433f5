package app

import (
	"os"
	"runtime/debug"
)

// softMemory is the number of bytes above which the garbage collector runs more often. Live memory
// is limited by the buffers of uploads and by the few files that are sealed at the same time, so
// garbage need not use as much memory as the live data.
const softMemory = 80 << 20

// limitMemory sets the memory limit of the garbage collector, unless the operator has set
// GOMEMLIMIT.
func limitMemory() {
	if _, set := os.LookupEnv("GOMEMLIMIT"); !set {
		debug.SetMemoryLimit(softMemory)
	}
}
