// Package pdfium renders pages of PDF files to images, and reads their text.
//
// It runs the WebAssembly build of PDFium in a sandbox: wazero executes it in
// this process, with a memory limit and a deadline. Each open document has its
// own instance, which is reset or discarded after the document, so that no
// document can affect the rendering of another document. The sandbox has no file
// system, no network and no clock. It can only read the document.
//
// The package does not validate files, place stamps or encode images. PDFium
// substitutes fonts that are neither embedded nor among the 14 standard fonts,
// because the sandbox has no system fonts.
package pdfium

import (
	"context"
	"errors"
	"fmt"
	"io"
	"runtime/debug"
	"sync"
	"time"
)

// Errors that callers test for with errors.Is.
var (
	// ErrUnavailable means that the renderer is not part of this binary or
	// cannot start.
	ErrUnavailable = errors.New("PDF renderer unavailable")
	// ErrClosed means that the renderer or the document was closed.
	ErrClosed = errors.New("PDF renderer closed")
	// ErrRequest means that a Request or a Source is invalid, whatever the document contains.
	ErrRequest = errors.New("invalid render request")
	// ErrLoad means that PDFium cannot open the document or the page.
	ErrLoad = errors.New("PDF cannot be loaded")
	// ErrPassword means that the document needs a password. It wraps ErrLoad.
	ErrPassword = fmt.Errorf("%w: it needs a password", ErrLoad)
	// ErrTimeout means that the call exceeded its deadline.
	ErrTimeout = errors.New("PDF rendering timed out")
	// ErrMemory means that the document needs more memory than the limit of an
	// instance, or that the requested image is too large.
	ErrMemory = errors.New("PDF rendering needs too much memory")
	// ErrAborted means that PDFium crashed on the document.
	ErrAborted = errors.New("PDF renderer aborted")
)

// Defaults of Options.
const (
	DefaultInstances         = 2
	DefaultMemoryLimit int64 = 256 << 20
	DefaultTimeout           = 5 * time.Second
)

// Options configures a Renderer. Zero fields have the default values.
type Options struct {
	// CompiledDir is a folder to which Warm has written compiled code. The renderer writes no
	// files to it. If it has no code for this version and this processor, the renderer uses
	// CacheDir. Only the user of this process and root may be able to write to CompiledDir.
	CompiledDir string
	// CacheDir is a folder for compiled machine code, which a later process can
	// reuse. The folder is created if it is missing. Its content is executed, so
	// only the user of this process may be able to write to it. If CacheDir is
	// empty and CompiledDir has no code, PDFium is compiled each time it is loaded.
	CacheDir string
	// Instances is the maximum number of open documents. Open waits for a free
	// instance.
	Instances int
	// MemoryLimit is the maximum memory in bytes of each open document.
	MemoryLimit int64
	// Timeout limits the work of each call, in addition to the deadline of its
	// context. Timeout does not include the wait for a free instance, or until
	// PDFium is loaded or compiled.
	Timeout time.Duration
	// Unload is the time without an open document after which the renderer frees
	// the memory of PDFium, about 30 MB. The next document loads PDFium again. If
	// Unload is 0, PDFium remains in memory.
	Unload time.Duration
}

// Source is a file in two parts: Head followed by Tail. Both are read while the
// document is open. A deadline does not interrupt a blocked read of Head.
type Source struct {
	Head     io.ReaderAt
	HeadSize int64 // in bytes
	Tail     []byte
}

// Renderer renders pages. It is safe for concurrent use.
type Renderer struct {
	opts  Options
	slots chan struct{} // one token per open document

	closing context.Context //nolint:containedctx // the renderer's own context, cancelled by Close
	stop    context.CancelFunc

	closeMu     sync.Mutex
	closedSlots int // slots acquired by Close, never released

	mu      sync.Mutex
	open    map[*Document]struct{}
	current *loaded     // nil if PDFium is not in memory
	users   int         // documents and calls of Compile that use current or wait for it
	unused  *time.Timer // calls unload; nil until it is needed
}

// loaded is PDFium that is in memory, or that is being loaded or compiled.
type loaded struct {
	started chan struct{} // closed when engine and err are set
	engine  *engine
	err     error // permanent, because PDFium is not loaded again
}

// New returns a renderer. PDFium is compiled by Compile or when the first
// document is opened. The error wraps ErrUnavailable in a binary built without
// PDFium, or if the memory limit is too small or too large. The renderer uses the
// values of ctx but ignores its cancellation. It remains open until Close is
// called.
func New(ctx context.Context, opts Options) (*Renderer, error) {
	if err := available(files); err != nil {
		return nil, err
	}
	if opts.Instances <= 0 {
		opts.Instances = DefaultInstances
	}
	if opts.MemoryLimit <= 0 {
		opts.MemoryLimit = DefaultMemoryLimit
	}
	if opts.MemoryLimit < minMemory || opts.MemoryLimit > maxMemory {
		return nil, fmt.Errorf("%w: memory limit %d is not between %d and %d bytes",
			ErrUnavailable, opts.MemoryLimit, int64(minMemory), int64(maxMemory))
	}
	if opts.Timeout <= 0 {
		opts.Timeout = DefaultTimeout
	}
	r := &Renderer{
		opts:  opts,
		slots: make(chan struct{}, opts.Instances),
		open:  make(map[*Document]struct{}),
	}
	r.closing, r.stop = context.WithCancel(context.WithoutCancel(ctx))
	return r, nil
}

// Compile compiles PDFium before its first use and waits for the compilation. It
// stops waiting when ctx is done, but the compilation continues. The error
// wraps ErrClosed, the cause of ctx, or ErrUnavailable, which is permanent.
func (r *Renderer) Compile(ctx context.Context) error {
	if _, err := r.acquire(ctx); err != nil {
		return err
	}
	r.leave()
	return nil
}

// acquire returns the engine, and loads it if necessary. The caller must call
// leave when it no longer uses the engine.
func (r *Renderer) acquire(ctx context.Context) (*engine, error) {
	r.mu.Lock()
	if r.closing.Err() != nil {
		r.mu.Unlock()
		return nil, ErrClosed
	}
	if r.current == nil {
		r.current = r.load()
	}
	l := r.current
	r.users++
	r.mu.Unlock()
	err := l.wait(ctx)
	if err == nil && r.closing.Err() != nil {
		err = ErrClosed
	}
	if err != nil {
		r.leave()
		return nil, err
	}
	return l.engine, nil
}

// load loads or compiles PDFium in the background.
func (r *Renderer) load() *loaded {
	l := &loaded{started: make(chan struct{})}
	go func() {
		defer close(l.started)
		l.engine, l.err = newEngine(r.closing, r.opts.CompiledDir, r.opts.CacheDir, r.opts.MemoryLimit)
		// Loading or compiling PDFium leaves more garbage than the memory that an idle vault needs.
		// The garbage is freed now, because the documents that wait for PDFium need memory next.
		debug.FreeOSMemory()
	}()
	return l
}

// wait waits until PDFium is loaded.
func (l *loaded) wait(ctx context.Context) error {
	select {
	case <-l.started:
		return l.err
	case <-ctx.Done():
		return fmt.Errorf("waiting for the PDF renderer: %w", context.Cause(ctx))
	}
}

// leave ends the use of the engine.
func (r *Renderer) leave() {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.users--
	switch {
	case r.users > 0 || r.opts.Unload <= 0:
	case r.unused == nil:
		r.unused = time.AfterFunc(r.opts.Unload, r.unload)
	default:
		r.unused.Reset(r.opts.Unload)
	}
}

// unload frees PDFium if no document is open.
func (r *Renderer) unload() {
	r.mu.Lock()
	if r.users > 0 || r.closing.Err() != nil || !r.current.idle() {
		r.mu.Unlock()
		return
	}
	// A caller could not handle the error of freeing the code.
	_ = r.current.engine.close(context.WithoutCancel(r.closing))
	r.current = nil
	r.mu.Unlock()
	debug.FreeOSMemory()
}

// idle reports whether there is an engine that can be freed.
func (l *loaded) idle() bool {
	if l == nil {
		return false
	}
	select {
	case <-l.started:
		return l.err == nil
	default:
		return false
	}
}

// Open opens a document. The document occupies one of the renderer's instances
// until it is closed. The error wraps an error of this package, the cause of
// ctx, or an error of reading src.
func (r *Renderer) Open(ctx context.Context, src Source) (*Document, error) {
	select {
	case r.slots <- struct{}{}:
	case <-r.closing.Done():
		return nil, ErrClosed
	case <-ctx.Done():
		return nil, fmt.Errorf("waiting for a free PDF renderer: %w", context.Cause(ctx))
	}
	e, err := r.acquire(ctx)
	if err != nil {
		<-r.slots
		return nil, err
	}
	d := &Document{renderer: r, engine: e}
	if err := d.load(ctx, src); err != nil {
		d.release()
		r.leave()
		<-r.slots
		return nil, fmt.Errorf("opening the document: %w", err)
	}
	r.mu.Lock()
	r.open[d] = struct{}{}
	r.mu.Unlock()
	if r.closing.Err() != nil { // Close may have read the map already
		d.Close()
		return nil, ErrClosed
	}
	return d, nil
}

// Render opens src, renders one page and closes the document.
func (r *Renderer) Render(ctx context.Context, src Source, req Request) (*Page, error) {
	d, err := r.Open(ctx, src)
	if err != nil {
		return nil, err
	}
	defer d.Close()
	return d.Render(ctx, req)
}

// Close ends calls in progress, closes open documents and frees all memory. If
// ctx is done before that, Close returns an error and may be called again.
func (r *Renderer) Close(ctx context.Context) error {
	r.stop()
	r.closeMu.Lock()
	defer r.closeMu.Unlock()
	r.mu.Lock()
	if r.unused != nil {
		r.unused.Stop()
	}
	l := r.current
	r.mu.Unlock()
	if l != nil {
		select {
		case <-l.started:
		case <-ctx.Done():
			return fmt.Errorf("closing the PDF renderer while it compiles: %w", context.Cause(ctx))
		}
	}
	r.mu.Lock()
	open := make([]*Document, 0, len(r.open))
	for d := range r.open {
		open = append(open, d)
	}
	r.mu.Unlock()
	for _, d := range open {
		d.Close()
	}
	for r.closedSlots < cap(r.slots) {
		select {
		case r.slots <- struct{}{}:
			r.closedSlots++
		case <-ctx.Done():
			return fmt.Errorf("closing the PDF renderer while it renders: %w", context.Cause(ctx))
		}
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	if l = r.current; l == nil || l.engine == nil {
		return nil
	}
	r.current = nil
	if err := l.engine.close(ctx); err != nil {
		return fmt.Errorf("closing the PDF renderer: %w", err)
	}
	return nil
}
