package main

import (
	"errors"
	"fmt"
	"io"
	"os"
	"sync"
	"time"

	"github.com/certvault/certvault/internal/blob"
)

// progressTime is the interval at which a long copy prints its progress.
const progressTime = 10 * time.Second

type blobCommand struct {
	Copy blobCopy `cmd:"" help:"Copy all files of a file store to another store. An interrupted copy can be continued with the same command."`
}

type blobCopy struct {
	From string `arg:"" help:"Source: the file store of a data folder, such as certvault-data/files, or s3://..."`
	To   string `arg:"" help:"Target: a new folder, a folder that already has some of the files, or s3://..."`
}

// Run copies the files and prints the counts. It returns an error if it could not copy a file, or if
// a file in the target differs.
func (b *blobCopy) Run(c *console) (err error) {
	scratch := ""
	if blob.IsS3(b.From) || blob.IsS3(b.To) {
		if scratch, err = os.MkdirTemp("", "certvault-copy-"); err != nil {
			return fmt.Errorf("creating a folder for files in transit: %w", err)
		}
		defer func() { _ = os.RemoveAll(scratch) }() // it has only empty folders, because the stores delete their files
	}
	from, err := openStore("FROM", b.From, scratch)
	if err != nil {
		return err
	}
	to, err := openStore("TO", b.To, scratch)
	if err != nil {
		return err
	}
	var printing sync.Mutex
	show := func(format string, args ...any) {
		printing.Lock()
		defer printing.Unlock()
		printf(c.stderr, format, args...)
	}
	copier := &blob.Copier{From: from, To: to, Problem: func(key string, err error) { show("certvault: %s: %v\n", key, err) }}
	stop := every(progressTime, func() { show("%s\n", countsText(copier.Counts())) })
	err = copier.Run(c.ctx)
	stop()
	counts := copier.Counts()
	if err != nil && !errors.Is(err, blob.ErrIncompleteCopy) {
		if counts == (blob.CopyCounts{}) {
			return err // nothing was copied
		}
		return fmt.Errorf("%w (%s; the same command continues the copy)", err, countsText(counts))
	}
	return errors.Join(err, c.print(counts, func(w io.Writer) { _, _ = fmt.Fprintf(w, "%s.\n", countsText(counts)) }))
}

// openStore returns the file store at a location. name is the name of the argument, for errors.
func openStore(name, location, scratch string) (blob.FileStore, error) {
	store, err := blob.OpenURL(location, blob.S3Options{Scratch: scratch})
	if errors.Is(err, blob.ErrLocation) {
		return nil, &usageError{fmt.Errorf("%s: %w", name, err)}
	}
	return store, err
}

func countsText(n blob.CopyCounts) string {
	text := fmt.Sprintf("Files copied: %d (%d bytes), already in the target: %d", n.Copied, n.Bytes, n.Skipped)
	if n.Removed > 0 {
		text += fmt.Sprintf(", removed from the source meanwhile: %d", n.Removed)
	}
	if n.Failed > 0 {
		text += fmt.Sprintf(", failed: %d", n.Failed)
	}
	return text
}

// every calls f at an interval until stop is called. When stop returns, f is not running.
func every(interval time.Duration, f func()) (stop func()) {
	done, ended := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(ended)
		tick := time.NewTicker(interval)
		defer tick.Stop()
		for {
			select {
			case <-done:
				return
			case <-tick.C:
				f()
			}
		}
	}()
	return func() {
		close(done)
		<-ended
	}
}
