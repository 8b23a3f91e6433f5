package pdfium

import (
	"context"
	"errors"
	"fmt"
	"sync"

	"github.com/tetratelabs/wazero"
	"github.com/tetratelabs/wazero/experimental"
)

// engine is PDFium compiled to machine code. It creates instances.
type engine struct {
	runtime wazero.Runtime
	module  wazero.CompiledModule
	cache   wazero.CompilationCache // nil if none
	limit   int64

	mu    sync.Mutex
	start *state      // nil until the first instance exists
	idle  []*instance // instances with the state start
}

// instrumented returns PDFium's module with the changes of instrument.
func instrumented() ([]byte, error) {
	wasm, err := module(files)
	if err != nil {
		return nil, fmt.Errorf("%w: %w", ErrUnavailable, err)
	}
	wasm, err = instrument(wasm)
	if err != nil {
		return nil, fmt.Errorf("%w: %w", ErrUnavailable, err)
	}
	return wasm, nil
}

// newEngine loads the compiled code from compiledDir or cacheDir, or compiles
// PDFium. If the cache is unusable, it compiles PDFium without a cache.
func newEngine(ctx context.Context, compiledDir, cacheDir string, limit int64) (*engine, error) {
	wasm, err := instrumented()
	if err != nil {
		return nil, err
	}
	if compiledDir != "" {
		if e, err := load(ctx, wasm, compiledDir, limit); err == nil {
			return e, nil
		}
	}
	if cacheDir != "" {
		if cache, err := wazero.NewCompilationCacheWithDir(cacheDir); err == nil {
			if e, err := compile(ctx, wasm, cache, limit); err == nil {
				return e, nil
			}
			_ = cache.Close(ctx)
		}
	}
	e, err := compile(ctx, wasm, nil, limit)
	if err != nil {
		return nil, fmt.Errorf("%w: %w", ErrUnavailable, err)
	}
	return e, nil
}

func compile(ctx context.Context, wasm []byte, cache wazero.CompilationCache, limit int64) (*engine, error) {
	return compileWith(ctx, ctx, wasm, cache, limit)
}

// compileWith is like compile, but uses the context compiling for the compilation.
func compileWith(compiling, ctx context.Context, wasm []byte, cache wazero.CompilationCache, limit int64) (*engine, error) {
	config := wazero.NewRuntimeConfig().WithMemoryLimitPages(uint32(limit / wasmPage))
	if cache != nil {
		config = config.WithCompilationCache(cache)
	}
	runtime := wazero.NewRuntimeWithConfig(ctx, config)
	module, err := runtime.CompileModule(compiling, wasm)
	if err != nil {
		_ = runtime.Close(ctx)
		return nil, fmt.Errorf("compiling PDFium: %w", err)
	}
	if err := instantiateHost(ctx, runtime, module); err != nil {
		_ = runtime.Close(ctx)
		return nil, err
	}
	return &engine{runtime: runtime, module: module, cache: cache, limit: limit}, nil
}

// instance returns an instance of PDFium in its initial state. The caller must
// return the instance with put.
func (e *engine) instance(ctx context.Context) (*instance, error) {
	e.mu.Lock()
	defer e.mu.Unlock()
	if n := len(e.idle); n > 0 {
		i := e.idle[n-1]
		e.idle = e.idle[:n-1]
		return i, nil
	}
	i, err := e.create(ctx)
	if err == nil && e.start == nil {
		e.start = stateOf(i)
	}
	return i, err
}

// put returns an instance to the engine. It keeps the instance if its state can be
// reset, because a reset costs less than a new instance. usable reports whether the
// calls of the instance succeeded.
func (e *engine) put(i *instance, usable bool) {
	if usable && e.start.reset(i) {
		e.mu.Lock()
		e.idle = append(e.idle, i)
		e.mu.Unlock()
		return
	}
	// A caller could not handle an error of closing the module or unmapping its
	// memory.
	_ = i.release()
}

func (e *engine) create(ctx context.Context) (*instance, error) {
	mem, err := reserve(e.limit / wasmPage * wasmPage)
	if err != nil {
		return nil, fmt.Errorf("%w: %w", ErrMemory, err)
	}
	i := &instance{memory: mem}
	ctx = experimental.WithMemoryAllocator(ctx, mem)
	i.module, err = e.runtime.InstantiateModule(ctx, e.module,
		wazero.NewModuleConfig().WithName("").WithStartFunctions()) // no name, because several instances exist at once
	if err != nil {
		_ = mem.release()
		return nil, fmt.Errorf("%w: starting PDFium: %w", ErrUnavailable, err)
	}
	i.globals = mutableOf(i.module)
	for _, name := range []string{"__wasm_call_ctors", "FPDF_InitLibrary"} {
		if _, err := i.call(ctx, name); err != nil {
			_ = i.release()
			return nil, fmt.Errorf("starting PDFium: %w", err)
		}
	}
	return i, nil
}

// close frees the engine. All instances must have been put back.
func (e *engine) close(ctx context.Context) error {
	var err error
	for _, i := range e.idle {
		err = errors.Join(err, i.release())
	}
	e.idle = nil
	err = errors.Join(err, e.runtime.Close(ctx))
	if e.cache != nil {
		err = errors.Join(err, e.cache.Close(ctx))
	}
	if err != nil {
		return fmt.Errorf("freeing the compiled code: %w", err)
	}
	return nil
}
