package pdfium

import (
	"context"
	"errors"
	"fmt"
	"math"
	"sync"
)

// Document is an open document. It is safe for concurrent use, but handles one
// call at a time. It occupies one of the renderer's instances until it is
// closed.
type Document struct {
	renderer *Renderer
	engine   *engine

	mu       sync.Mutex
	instance *instance // nil when closed
	handle   uint64    // FPDF_DOCUMENT
	pages    int
	page     uint64 // FPDF_PAGE of the page that was used last, or 0
	index    int    // index of page
	form     uint64 // FPDF_FORMHANDLE, or 0
	failed   error  // not nil if the instance can no longer be used
}

// load gets an instance from the engine and opens the document in it.
func (d *Document) load(ctx context.Context, src Source) error {
	f, err := newFile(src)
	if err != nil {
		return err
	}
	r := d.renderer
	d.instance, err = d.engine.instance(r.closing)
	if r.closing.Err() != nil {
		return ErrClosed // the caller releases the instance
	}
	if err != nil {
		return err
	}
	d.instance.file = f
	return d.run(ctx, func(ctx context.Context) error {
		i := d.instance
		path, err := i.copyIn(ctx, []byte(documentPath+"\x00"))
		if err != nil {
			return err
		}
		if d.handle, err = i.call(ctx, "FPDF_LoadDocument", path, 0); err != nil {
			return err
		}
		if d.handle == 0 {
			return i.lastError(ctx)
		}
		n, err := i.call(ctx, "FPDF_GetPageCount", d.handle)
		if err != nil {
			return err
		}
		d.pages = int(int32(uint32(n)))
		if d.pages <= 0 {
			return fmt.Errorf("%w: it has no page", ErrLoad)
		}
		return nil
	})
}

// lastError returns the reason why PDFium did not load a document or a page.
func (i *instance) lastError(ctx context.Context) error {
	code, err := i.call(ctx, "FPDF_GetLastError")
	if err != nil {
		return err
	}
	switch code { // fpdfview.h, FPDF_ERR_*
	case 2, 3:
		return fmt.Errorf("%w: it is not a PDF file, or it is damaged", ErrLoad)
	case 4:
		return ErrPassword
	case 5:
		return fmt.Errorf("%w: its encryption is not supported", ErrLoad)
	case 6:
		return fmt.Errorf("%w: the page is missing or damaged", ErrLoad)
	default:
		return fmt.Errorf("%w: PDFium reports no reason", ErrLoad)
	}
}

// run calls work with a context that ends with ctx, after the renderer's timeout,
// or when the renderer is closed. The caller holds d.mu, or d is not shared yet.
// run converts the error of work to an error for the caller. If an earlier error
// made the instance unusable, run returns that error without calling work.
func (d *Document) run(ctx context.Context, work func(ctx context.Context) error) error {
	if d.instance == nil {
		return ErrClosed
	}
	if d.failed != nil {
		return d.failed
	}
	r := d.renderer
	limited, cancel := context.WithTimeout(ctx, r.opts.Timeout)
	defer cancel()
	defer context.AfterFunc(r.closing, cancel)()

	err := limited.Err()
	if err == nil {
		err = work(limited)
	}
	switch i := d.instance; {
	case i.readErr != nil: // an error of the reader is not an error of the document
		d.failed = fmt.Errorf("reading the document: %w", i.readErr)
	case i.exceeded: // even if PDFium continued, the result is incomplete
		d.failed = fmt.Errorf("%w: more than %d bytes", ErrMemory, r.opts.MemoryLimit)
	case err != nil && limited.Err() != nil:
		d.failed = d.stopReason(ctx)
	case errors.Is(err, errTrap):
		d.failed = fmt.Errorf("%w: %w", ErrAborted, err)
	default:
		return err
	}
	return d.failed
}

// stopReason returns the reason why a call with ctx was stopped.
func (d *Document) stopReason(ctx context.Context) error {
	switch {
	case d.renderer.closing.Err() != nil:
		return ErrClosed
	case errors.Is(ctx.Err(), context.Canceled):
		return context.Cause(ctx)
	case ctx.Err() != nil:
		return fmt.Errorf("%w: %w", ErrTimeout, context.Cause(ctx))
	default:
		return fmt.Errorf("%w after %v", ErrTimeout, d.renderer.opts.Timeout)
	}
}

// Pages returns the number of pages, at least 1.
func (d *Document) Pages() int { return d.pages }

// PageSize returns the width and height of a page as shown: CropBox within
// MediaBox, rotated by Rotate, in default user space units.
func (d *Document) PageSize(ctx context.Context, page int) (width, height float64, err error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	err = d.run(ctx, func(ctx context.Context) error {
		width, height, err = d.size(ctx, page)
		return err
	})
	if err != nil {
		return 0, 0, fmt.Errorf("reading the size of page %d: %w", page, err)
	}
	return width, height, nil
}

func (d *Document) size(ctx context.Context, page int) (width, height float64, err error) {
	if page < 0 || page >= d.pages {
		return 0, 0, fmt.Errorf("%w: the document has %d pages", ErrLoad, d.pages)
	}
	out, err := d.instance.copyIn(ctx, make([]byte, 8)) // FS_SIZEF
	if err != nil {
		return 0, 0, err
	}
	ok, err := d.instance.call(ctx, "FPDF_GetPageSizeByIndexF", d.handle, uint64(page), out)
	if err != nil {
		return 0, 0, err
	}
	size, err := d.instance.floats(out, 2)
	if err != nil {
		return 0, 0, err
	}
	if _, err := d.instance.call(ctx, "free", out); err != nil {
		return 0, 0, err
	}
	if ok == 0 {
		return 0, 0, d.instance.lastError(ctx)
	}
	if !(size[0] > 0 && size[1] > 0) || math.IsInf(size[0], 0) || math.IsInf(size[1], 0) {
		return 0, 0, fmt.Errorf("%w: the page is %v by %v units", ErrLoad, size[0], size[1])
	}
	return size[0], size[1], nil
}

// Close frees the document. It waits for a call in progress. Close may be called
// more than once.
func (d *Document) Close() {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.instance == nil {
		return
	}
	d.release()
	r := d.renderer
	r.mu.Lock()
	delete(r.open, d)
	r.mu.Unlock()
	r.leave()
	<-r.slots
}

// release returns the instance to the engine. It does not close the objects of
// PDFium, because the memory of the instance is reset or freed.
func (d *Document) release() {
	if d.instance == nil {
		return
	}
	d.engine.put(d.instance, d.failed == nil)
	d.instance = nil
}
