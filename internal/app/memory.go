package app

import (
	"os"
	"runtime/debug"
)

// softMemory is the memory limit of the garbage collector in bytes. The live memory is mainly the
// buffers of uploads and the few files that are sealed at the same time. Without a limit, the garbage
// may become as large as the live memory.
const softMemory = 80 << 20

// limitMemory sets the memory limit of the garbage collector, unless the operator has set
// GOMEMLIMIT.
func limitMemory() {
	if _, set := os.LookupEnv("GOMEMLIMIT"); !set {
		debug.SetMemoryLimit(softMemory)
	}
}
