package blob

import (
	"os"
	"sync/atomic"
)

// transit is the number of bytes of the files that a store is receiving and has not stored yet.
type transit struct{ bytes atomic.Int64 }

// Transit returns the number of bytes that were received for files that are not stored yet.
func (t *transit) Transit() int64 { return t.bytes.Load() }

// begin returns a file whose bytes are in transit until end is called.
func (t *transit) begin(file *os.File) *incoming { return &incoming{File: file, of: t} }

// incoming is a file in transit.
type incoming struct {
	*os.File

	of   *transit
	size int64
}

// Write implements [io.Writer].
func (i *incoming) Write(p []byte) (int, error) {
	n, err := i.File.Write(p)
	i.size += int64(n)
	i.of.bytes.Add(int64(n))
	return n, err
}

func (i *incoming) end() { i.of.bytes.Add(-i.size) }
