package pdfium

import (
	"context"
	"fmt"

	"github.com/tetratelabs/wazero"
	"github.com/tetratelabs/wazero/experimental"
)

// engine is PDFium compiled to machine code. It creates instances.
type engine struct {
	runtime wazero.Runtime
	module  wazero.CompiledModule
	cache   wazero.CompilationCache // nil if none
	limit   int64
}

// newEngine compiles PDFium, or loads the compiled code from cacheDir. If the
// cache is unusable, it compiles PDFium without a cache.
func newEngine(ctx context.Context, cacheDir string, limit int64) (*engine, error) {
	wasm, err := module(files)
	if err != nil {
		return nil, fmt.Errorf("%w: %w", ErrUnavailable, err)
	}
	wasm, err = instrument(wasm)
	if err != nil {
		return nil, fmt.Errorf("%w: %w", ErrUnavailable, err)
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
	config := wazero.NewRuntimeConfig().WithMemoryLimitPages(uint32(limit / wasmPage))
	if cache != nil {
		config = config.WithCompilationCache(cache)
	}
	runtime := wazero.NewRuntimeWithConfig(ctx, config)
	module, err := runtime.CompileModule(ctx, wasm)
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

// instance creates an instance of PDFium. The caller must release it.
func (e *engine) instance(ctx context.Context) (*instance, error) {
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
	for _, name := range []string{"__wasm_call_ctors", "FPDF_InitLibrary"} {
		if _, err := i.call(ctx, name); err != nil {
			_ = i.release()
			return nil, fmt.Errorf("starting PDFium: %w", err)
		}
	}
	return i, nil
}

func (e *engine) close(ctx context.Context) error {
	err := e.runtime.Close(ctx)
	if e.cache != nil {
		if cacheErr := e.cache.Close(ctx); err == nil {
			err = cacheErr
		}
	}
	if err != nil {
		return fmt.Errorf("freeing the compiled code: %w", err)
	}
	return nil
}
