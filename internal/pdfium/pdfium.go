// Package pdfium renders pages of PDF files to images.
//
// It owns the sandbox: PDFium's WebAssembly build, run by wazero inside this
// process, with a memory limit and a deadline. Each document gets an instance
// of its own, made for it and thrown away with it, so that nothing one document
// did to PDFium's state, by accident or by intent, can show in the next one.
// The sandbox has no file system, no network and no clock: it can read the
// document at hand, and that is all.
//
// It does not judge files, place stamps or encode images. What a page shows is
// what PDFium draws; fonts that are neither embedded nor among the 14 standard
// ones are substituted, since the sandbox has no system fonts.
package pdfium

import (
	"context"
	"errors"
	"fmt"
	"io"
	"sync"
	"time"
)

// The kinds of failure, for errors.Is.
var (
	// ErrUnavailable means that the renderer is not part of this binary or cannot be started.
	ErrUnavailable = errors.New("PDF renderer unavailable")
	// ErrClosed means that the renderer or the document was closed.
	ErrClosed = errors.New("PDF renderer closed")
	// ErrRequest means that the request itself makes no sense for any document.
	ErrRequest = errors.New("invalid render request")
	// ErrLoad means that PDFium cannot open the document or the page.
	ErrLoad = errors.New("PDF cannot be loaded")
	// ErrPassword means that the document opens only with a password; such an error is also ErrLoad.
	ErrPassword = fmt.Errorf("%w: it needs a password", ErrLoad)
	// ErrTimeout means that the call was ended by its deadline.
	ErrTimeout = errors.New("PDF rendering timed out")
	// ErrMemory means that the document or the image asked for exceeds the memory an instance may have.
	ErrMemory = errors.New("PDF rendering needs too much memory")
	// ErrAborted means that PDFium broke down on the document.
	ErrAborted = errors.New("PDF renderer aborted")
)

// Defaults of Options.
const (
	DefaultInstances         = 2
	DefaultMemoryLimit int64 = 256 << 20
	DefaultTimeout           = 5 * time.Second
)

// Options configures a Renderer. The zero value works.
type Options struct {
	// CacheDir is a folder for compiled machine code, which survives restarts and is
	// created when missing. What lies there is executed: nobody but the user of this
	// process may be able to write to it. If empty, every start compiles anew.
	CacheDir string
	// Instances is the most documents open at once; further ones wait.
	Instances int
	// MemoryLimit is the most memory in bytes for each open document.
	MemoryLimit int64
	// Timeout bounds the work of each call, beside the deadline of its context.
	// Waiting for a free instance or for the first compilation does not count.
	Timeout time.Duration
}

// Source is a file in two parts: Head followed by Tail. Both are read while the
// document is open. A read of Head that blocks is not interrupted by deadlines.
type Source struct {
	Head     io.ReaderAt
	HeadSize int64 // bytes
	Tail     []byte
}

// Renderer renders pages. It is safe for concurrent use.
type Renderer struct {
	opts  Options
	slots chan struct{} // one token per open document

	startOnce sync.Once
	started   chan struct{} // closed when engine and startErr are set
	engine    *engine
	startErr  error

	closing context.Context //nolint:containedctx // the renderer's own: done when Close was called
	stop    context.CancelFunc

	closeMu sync.Mutex
	drained int // slots taken by Close, never given back

	mu   sync.Mutex
	open map[*Document]struct{}
}

// New returns a renderer at once: PDFium is compiled by Warm or at first use.
// The error is ErrUnavailable in a binary built without PDFium. Values carried
// by ctx are kept, its end is not heeded: a renderer lives until Close.
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
		return nil, fmt.Errorf("%w: memory limit %d is not within %d and %d bytes",
			ErrUnavailable, opts.MemoryLimit, int64(minMemory), int64(maxMemory))
	}
	if opts.Timeout <= 0 {
		opts.Timeout = DefaultTimeout
	}
	r := &Renderer{
		opts:    opts,
		slots:   make(chan struct{}, opts.Instances),
		started: make(chan struct{}),
		open:    make(map[*Document]struct{}),
	}
	r.closing, r.stop = context.WithCancel(context.WithoutCancel(ctx))
	return r, nil
}

// Warm compiles PDFium now instead of at first use and waits for it until ctx is
// done; the compilation itself goes on. An error other than that of ctx is
// ErrUnavailable and permanent.
func (r *Renderer) Warm(ctx context.Context) error {
	if r.closing.Err() != nil {
		return ErrClosed
	}
	r.startOnce.Do(func() {
		go func() {
			defer close(r.started)
			r.engine, r.startErr = newEngine(r.closing, r.opts.CacheDir, r.opts.MemoryLimit)
		}()
	})
	select {
	case <-r.started:
		if r.closing.Err() != nil {
			return ErrClosed
		}
		return r.startErr
	case <-ctx.Done():
		return fmt.Errorf("wait for the PDF renderer: %w", context.Cause(ctx))
	}
}

// Open opens a document, which must be closed and until then holds one of the
// renderer's instances. Errors are of the kinds of this package, or that of
// ctx, or that of reading src.
func (r *Renderer) Open(ctx context.Context, src Source) (*Document, error) {
	if err := r.Warm(ctx); err != nil {
		return nil, err
	}
	select {
	case r.slots <- struct{}{}:
	case <-r.closing.Done():
		return nil, ErrClosed
	case <-ctx.Done():
		return nil, fmt.Errorf("wait for a free PDF renderer: %w", context.Cause(ctx))
	}
	d := &Document{renderer: r}
	if err := d.load(ctx, src); err != nil {
		d.release()
		<-r.slots
		return nil, fmt.Errorf("open document: %w", err)
	}
	r.mu.Lock()
	r.open[d] = struct{}{}
	r.mu.Unlock()
	if r.closing.Err() != nil { // Close may have walked the map already
		d.Close()
		return nil, ErrClosed
	}
	return d, nil
}

// Render opens src, renders one page of it and closes it again.
func (r *Renderer) Render(ctx context.Context, src Source, req Request) (*Page, error) {
	d, err := r.Open(ctx, src)
	if err != nil {
		return nil, err
	}
	defer d.Close()
	return d.Render(ctx, req)
}

// Close ends calls under way, closes open documents and frees everything. It
// gives up waiting when ctx is done; it may then be called again.
func (r *Renderer) Close(ctx context.Context) error {
	r.stop()
	r.closeMu.Lock()
	defer r.closeMu.Unlock()
	r.startOnce.Do(func() { // never started, and never will be
		r.startErr = ErrClosed
		close(r.started)
	})
	select {
	case <-r.started:
	case <-ctx.Done():
		return fmt.Errorf("close PDF renderer while it compiles: %w", context.Cause(ctx))
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
	for r.drained < cap(r.slots) {
		select {
		case r.slots <- struct{}{}:
			r.drained++
		case <-ctx.Done():
			return fmt.Errorf("close PDF renderer while it renders: %w", context.Cause(ctx))
		}
	}
	if r.engine == nil {
		return nil
	}
	e := r.engine
	r.engine = nil
	if err := e.close(ctx); err != nil {
		return fmt.Errorf("close PDF renderer: %w", err)
	}
	return nil
}
