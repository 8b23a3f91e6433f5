package app

import (
	"os"
	"runtime/debug"
)

// softMemory is the number of bytes above which the garbage collector runs more often. Live memory
// is small: mainly the buffers of uploads, and the few files that are sealed at the same time.
// Without a limit, the collector lets the garbage grow to the size of the live memory.
const softMemory = 80 << 20

// limitMemory sets the memory limit of the garbage collector, unless the operator has set
// GOMEMLIMIT.
func limitMemory() {
	if _, set := os.LookupEnv("GOMEMLIMIT"); !set {
		debug.SetMemoryLimit(softMemory)
	}
}
