package pdfium

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"strings"

	"github.com/tetratelabs/wazero/api"
)

// instance is one instance of PDFium with its memory. It is used for one
// document at a time, by one goroutine at a time, and is reset before it is used
// for another document.
type instance struct {
	module api.Module
	memory *memory
	// globals are the mutable globals of the module: see instrument.
	globals []api.MutableGlobal

	file     *file // the only file that the sandbox can read
	readErr  error // first read error
	exceeded bool  // PDFium requested more memory than the limit
}

// errTrap means that the instance failed and must not be called again.
var errTrap = errors.New("trap")

type instanceKey struct{}

// instanceOf returns the instance that called a host function.
func instanceOf(ctx context.Context) *instance {
	i, _ := ctx.Value(instanceKey{}).(*instance)
	return i
}

// call calls an exported function of PDFium, and ends it if ctx is done. The
// error wraps errTrap.
func (i *instance) call(ctx context.Context, name string, args ...uint64) (uint64, error) {
	fn := i.module.ExportedFunction(name)
	if fn == nil {
		return 0, fmt.Errorf("%w: PDFium has no function %s", errTrap, name)
	}
	res, err := fn.Call(context.WithValue(ctx, instanceKey{}, i), args...)
	if err != nil {
		reason, _, _ := strings.Cut(err.Error(), "\n") // the rest is a stack trace
		return 0, fmt.Errorf("%w: %s: %s", errTrap, name, reason)
	}
	if len(res) == 0 {
		return 0, nil
	}
	return res[0], nil
}

// copyIn copies bytes into the instance and returns their address. The memory
// remains allocated until the caller frees it, or until the instance is reset or
// released.
func (i *instance) copyIn(ctx context.Context, b []byte) (uint64, error) {
	addr, err := i.call(ctx, "malloc", uint64(len(b)))
	if err != nil {
		return 0, err
	}
	if addr == 0 || !i.module.Memory().Write(uint32(addr), b) {
		return 0, ErrMemory
	}
	return addr, nil
}

// floats reads n float32 values at an address of the instance. The error wraps
// errTrap.
func (i *instance) floats(addr uint64, n uint32) ([]float64, error) {
	b, ok := i.module.Memory().Read(uint32(addr), 4*n)
	if !ok {
		return nil, fmt.Errorf("%w: invalid address %#x", errTrap, addr)
	}
	v := make([]float64, n)
	for k := range v {
		v[k] = float64(api.DecodeF32(uint64(binary.LittleEndian.Uint32(b[4*k:]))))
	}
	return v, nil
}

// release frees the instance. No call may be in progress.
func (i *instance) release() error {
	err := i.module.Close(context.Background())
	if memErr := i.memory.release(); err == nil {
		err = memErr
	}
	return err
}
