package pdfium

import (
	"bytes"
	"strconv"

	"github.com/tetratelabs/wazero/api"
)

// state is the state of an instance before its first document. All instances
// begin with the same state, because PDFium's initialization has no input.
type state struct {
	// memory is the beginning of the linear memory. The rest is zero.
	memory []byte
	// size is the size of the linear memory in bytes.
	size    uint32
	globals []uint64
}

// stateOf copies the state of an instance.
func stateOf(i *instance) *state {
	size := i.module.Memory().Size()
	all := i.memory.reserved[:size]
	used := len(bytes.TrimRight(all, "\x00"))
	used = min((used+wasmPage-1)/wasmPage*wasmPage, len(all))
	s := &state{memory: bytes.Clone(all[:used]), size: size}
	for _, g := range i.globals {
		s.globals = append(s.globals, g.Get())
	}
	return s
}

// mutableOf returns the mutable globals of a module: see instrument.
func mutableOf(module api.Module) (list []api.MutableGlobal) {
	for k := 0; ; k++ {
		g, ok := module.ExportedGlobal(globalPrefix + strconv.Itoa(k)).(api.MutableGlobal)
		if !ok {
			return list
		}
		list = append(list, g)
	}
}

// reset restores the state s of an instance, so that nothing of its document
// remains. It returns false if the memory has grown, because memory cannot
// shrink, or if the system has no fast way to zero memory. All calls of the
// instance must have succeeded.
func (s *state) reset(i *instance) bool {
	if i.module.Memory().Size() != s.size || !i.memory.zero(len(s.memory), int(s.size)) {
		return false
	}
	copy(i.memory.reserved, s.memory)
	for k, g := range i.globals {
		g.Set(s.globals[k])
	}
	i.file, i.readErr, i.exceeded = nil, nil, false
	return true
}
