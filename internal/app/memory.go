package app

import (
	"os"
	"runtime/debug"
)

// softMemory is the number of bytes above which the collector works harder. Live
// memory is bounded by the buffers of uploads and the few files being sealed. Garbage
// need not grow to the same size.
const softMemory = 100 << 20

// boundMemory sets the collector's goal, unless the operator did.
func boundMemory() {
	if _, set := os.LookupEnv("GOMEMLIMIT"); !set {
		debug.SetMemoryLimit(softMemory)
	}
}
