package app

import (
	"os"
	"runtime/debug"
)

// softMemory is from how much memory on the collector works harder, in bytes.
// What the vault holds at once is bounded: buffers of uploads, and the few
// files being sealed; the rest is garbage that need not pile up to twice that.
const softMemory = 100 << 20

// boundMemory sets the collector's goal, unless the operator did.
func boundMemory() {
	if _, set := os.LookupEnv("GOMEMLIMIT"); !set {
		debug.SetMemoryLimit(softMemory)
	}
}
