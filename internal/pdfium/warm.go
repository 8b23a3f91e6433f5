package pdfium

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/tetratelabs/wazero"
	"github.com/tetratelabs/wazero/experimental"
)

// Warm compiles PDFium into a folder and makes the folder readable by all users.
// It creates the folder if necessary, and compiles nothing if the folder already
// contains the code. A renderer with the folder as CompiledDir does not compile
// PDFium if its version is the same and its processor has the same features. With
// the same version and the same features, Warm always writes the same bytes.
func Warm(ctx context.Context, dir string) error {
	wasm, err := instrumented()
	if err != nil {
		return err
	}
	cache, err := wazero.NewCompilationCacheWithDir(dir)
	if err != nil {
		return fmt.Errorf("creating the folder of the compiled PDF renderer: %w", err)
	}
	e, err := compile(ctx, wasm, cache, DefaultMemoryLimit)
	if err != nil {
		return errors.Join(fmt.Errorf("writing the compiled PDF renderer to %s: %w", dir, err), cache.Close(ctx))
	}
	if err := e.close(ctx); err != nil {
		return err
	}
	err = filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		if d.IsDir() {
			return os.Chmod(path, 0o755) //nolint:gosec // the code is public, and another user may run the server
		}
		return os.Chmod(path, 0o644) //nolint:gosec // see above
	})
	if err != nil {
		return fmt.Errorf("making the compiled PDF renderer readable: %w", err)
	}
	return nil
}

// load loads the compiled code from the folder of Warm. It returns an error if the
// folder does not contain the code, and writes no files to the folder.
func load(ctx context.Context, wasm []byte, dir string, limit int64) (*engine, error) {
	// wazero would create missing folders: dir, and in dir a folder for its version.
	entries, err := os.ReadDir(dir)
	if err != nil {
		return nil, fmt.Errorf("reading the compiled PDF renderer: %w", err)
	}
	if !slices.ContainsFunc(entries, func(e fs.DirEntry) bool { return strings.HasPrefix(e.Name(), "wazero-") }) {
		return nil, fmt.Errorf("%s does not contain the compiled PDF renderer", dir)
	}
	cache, err := wazero.NewCompilationCacheWithDir(dir)
	if err != nil {
		return nil, fmt.Errorf("reading the compiled PDF renderer: %w", err)
	}
	// wazero has no function that only reads its cache. If the cache does not contain the
	// code, wazero compiles the module. With several workers, each worker checks the context
	// before its first function, so the cancelled context stops the compilation. With one
	// worker, wazero would not check the context.
	done, cancel := context.WithCancel(ctx)
	cancel()
	e, err := compileWith(experimental.WithCompilationWorkers(done, 2), ctx, wasm, cache, limit)
	if err != nil {
		return nil, errors.Join(err, cache.Close(ctx))
	}
	return e, nil
}
