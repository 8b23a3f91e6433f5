package app

import (
	"os"
	"runtime/debug"
)

// softMemory is the number of bytes above which the garbage collector works harder. Live memory is
// bounded by the buffers of uploads and the few files being sealed. Garbage need not grow to the
// same size.
const softMemory = 100 << 20

// boundMemory sets the memory limit of the collector, unless the operator has set one.
func boundMemory() {
	if _, set := os.LookupEnv("GOMEMLIMIT"); !set {
		debug.SetMemoryLimit(softMemory)
	}
}
