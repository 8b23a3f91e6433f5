package app

import (
	"context"
	"os"
	"runtime/debug"
	"time"
)

// softMemory is the number of bytes above which the garbage collector runs more often. Live memory
// is small: mainly the buffers of uploads, and the few files that are sealed at the same time.
// Without a limit, the collector lets the garbage grow to the size of the live memory.
const softMemory = 80 << 20

// releaseInterval is the interval at which an idle vault releases pages of its binary.
const releaseInterval = time.Minute

// releaseMemory releases the pages of the binary while the vault has no work: PDFium leaves the memory
// after its last use.
func (a *App) releaseMemory(context.Context) error {
	if a.renderer.Loaded() {
		return nil
	}
	return releaseCode()
}

// limitMemory sets the memory limit of the garbage collector, unless the operator has set
// GOMEMLIMIT.
func limitMemory() {
	if _, set := os.LookupEnv("GOMEMLIMIT"); !set {
		debug.SetMemoryLimit(softMemory)
	}
}
