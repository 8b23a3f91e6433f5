package pdfium

import (
	"context"
	"errors"
	goruntime "runtime"
	"strings"
	"testing"

	"github.com/tetratelabs/wazero"
)

// loops is a module whose function never ends: a loop within a loop. It has a
// global, and a constant that equals the opcode of a loop.
const loops = "\x00asm\x01\x00\x00\x00" +
	"\x01\x08\x02\x60\x00\x00\x60\x00\x01\x7c" + // types: func(), func() f64
	"\x02\x1b\x01\x03env\x13emscripten_date_now\x00\x01" + // imports
	"\x03\x02\x01\x00" + // functions
	"\x06\x06\x01\x7f\x01\x41\x2a\x0b" + // globals: i32 = 42
	"\x07\x08\x01\x04loop\x00\x01" + // exports
	"\x0a\x13\x01\x11" + // code
	"\x01\x01\x7f" + // one local
	"\x41\x03\x1a" + // i32.const 3; drop
	"\x03\x40" + // loop {
	"\x03\x40\x0c\x00\x0b" + // a loop { br 0 } inside
	"\x0c\x00\x0b\x0b" // br 0 }

// TestInstrument checks that an endless loop calls the clock and does not block
// the rest of the process. It runs the garbage collector, which must stop every
// goroutine.
func TestInstrument(t *testing.T) {
	t.Parallel()
	wasm, err := instrument([]byte(loops))
	if err != nil {
		t.Fatal(err)
	}
	for name, config := range map[string]wazero.RuntimeConfig{
		"compiled": wazero.NewRuntimeConfig(), "interpreted": wazero.NewRuntimeConfigInterpreter(),
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			ctx := context.Background()
			runtime := wazero.NewRuntimeWithConfig(ctx, config)
			defer runtime.Close(ctx)
			errStop := errors.New("stop")
			calls := 0
			first := make(chan struct{})
			collected := make(chan struct{})
			_, err := runtime.NewHostModuleBuilder(clockModule).NewFunctionBuilder().WithFunc(func() float64 {
				if calls++; calls == 1 {
					close(first)
				}
				select {
				case <-collected:
					panic(errStop)
				default:
					return 0
				}
			}).Export(clockName).Instantiate(ctx)
			if err != nil {
				t.Fatal(err)
			}
			m, err := runtime.Instantiate(ctx, wasm)
			if err != nil {
				t.Fatal(err)
			}
			go func() {
				<-first
				goruntime.GC()
				close(collected)
			}()
			if _, err := m.ExportedFunction("loop").Call(ctx); !errors.Is(err, errStop) {
				t.Errorf("the endless loop returned %v, want the error of the clock", err)
			}
		})
	}
}

func TestInstrumentErrors(t *testing.T) {
	t.Parallel()
	for n := range len(loops) {
		if _, err := instrument([]byte(loops[:n])); !errors.Is(err, errWasm) {
			t.Errorf("instrumenting the first %d bytes returned %v, want errWasm", n, err)
		}
	}
	for _, tc := range []struct{ name, old, new string }{
		{"unknown opcode", "\x41\x03\x1a", "\xfd\x03\x1a"},
		{"unknown opcode after a prefix", "\x41\x03\x1a", "\xfc\x7f\x1a"},
		{"imported global", "\x00\x01\x03\x02\x01\x00", "\x03\x01\x03\x02\x01\x00"},
		{"no clock", "date_now", "date_new"},
		{"two global sections", "\x03\x02\x01\x00", "\x06\x01\x00\x03\x02\x01\x00"},
		{"endless number", "\x06\x06", "\x06\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff"},
	} {
		if _, err := instrument([]byte(strings.Replace(loops, tc.old, tc.new, 1))); !errors.Is(err, errWasm) {
			t.Errorf("instrumenting the module %q returned %v, want errWasm", tc.name, err)
		}
	}
}
