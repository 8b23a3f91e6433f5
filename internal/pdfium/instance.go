package pdfium

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"strings"

	"github.com/tetratelabs/wazero/api"
)

// instance is one PDFium with its memory. It is used by one goroutine at a time
// and for one document.
type instance struct {
	module api.Module
	memory *memory

	file    *file // what the sandbox may read
	readErr error // first error of reading it
	denied  bool  // memory was asked for beyond the limit
}

// errTrap means that the instance broke down and must not be called again.
var errTrap = errors.New("trap")

type instanceKey struct{}

// instanceOf returns the instance on whose behalf a host function was called.
func instanceOf(ctx context.Context) *instance {
	i, _ := ctx.Value(instanceKey{}).(*instance)
	return i
}

// call calls an exported function, which runs until it is done or ctx is.
// An error is errTrap.
func (i *instance) call(ctx context.Context, name string, args ...uint64) (uint64, error) {
	fn := i.module.ExportedFunction(name)
	if fn == nil {
		return 0, fmt.Errorf("%w: PDFium has no function %s", errTrap, name)
	}
	res, err := fn.Call(context.WithValue(ctx, instanceKey{}, i), args...)
	if err != nil {
		reason, _, _ := strings.Cut(err.Error(), "\n") // a stack trace follows
		return 0, fmt.Errorf("%w: %s: %s", errTrap, name, reason)
	}
	if len(res) == 0 {
		return 0, nil
	}
	return res[0], nil
}

// pass copies bytes into the instance and returns their address. They are freed
// with the instance.
func (i *instance) pass(ctx context.Context, b []byte) (uint64, error) {
	addr, err := i.call(ctx, "malloc", uint64(len(b)))
	if err != nil {
		return 0, err
	}
	if addr == 0 || !i.module.Memory().Write(uint32(addr), b) {
		return 0, ErrMemory
	}
	return addr, nil
}

// floats reads n float32 values.
func (i *instance) floats(addr uint64, n uint32) ([]float64, error) {
	b, ok := i.module.Memory().Read(uint32(addr), 4*n)
	if !ok {
		return nil, fmt.Errorf("%w: address %#x", ErrAborted, addr)
	}
	v := make([]float64, n)
	for k := range v {
		v[k] = float64(api.DecodeF32(uint64(binary.LittleEndian.Uint32(b[4*k:]))))
	}
	return v, nil
}

// release frees the instance. No call may be under way.
func (i *instance) release() error {
	err := i.module.Close(context.Background())
	if memErr := i.memory.release(); err == nil {
		err = memErr
	}
	return err
}
