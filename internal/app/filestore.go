package app

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/certvault/certvault/internal/blob"
	"github.com/certvault/certvault/internal/config"
	"github.com/certvault/certvault/internal/db"
)

// cacheSize is the maximum total size in bytes of the copies of files from S3 on the disk of a node.
const cacheSize = 1 << 30

// filesDir returns the folder of the file store, or the folder for files in transit to S3.
func filesDir(c config.Storage) string { return filepath.Join(c.Data, "files") }

// openFiles returns the file store of a vault, for commands. It creates nothing in the store.
func openFiles(c config.Storage) (blob.FileStore, error) {
	return openFilesWith(c, blob.S3Options{})
}

func openFilesWith(c config.Storage, o blob.S3Options) (blob.FileStore, error) {
	if c.Blob == "" {
		return blob.OpenFolder(filesDir(c)), nil
	}
	setUmask()
	o.Scratch = filesDir(c)
	s, err := blob.OpenS3(c.Blob, o)
	if err != nil {
		return nil, fmt.Errorf("--blob: %w", err)
	}
	return s, nil
}

// verifyFiles opens the file store and calls verifyInstallation.
func verifyFiles(ctx context.Context, c config.Storage) error {
	store, err := openFiles(c)
	if err != nil {
		return err
	}
	return verifyInstallation(ctx, c, store)
}

// openFiles opens the file store of the server. Only the server keeps copies of files from S3, because
// it has locked the data folder.
func (a *App) openFiles() (err error) {
	requests := prometheus.NewHistogramVec(prometheus.HistogramOpts{
		Name: "certvault_store_request_seconds", Help: "Time until the file store in S3 began to answer a request, by operation and result.",
		Buckets: []float64{.005, .01, .025, .05, .1, .25, .5, 1, 2.5, 5, 10, 20},
	}, []string{"operation", "failed"})
	if a.cfg.Blob != "" {
		a.registry.MustRegister(requests)
	}
	a.blobs, err = openFilesWith(a.cfg.Storage, blob.S3Options{Cache: cacheSize, Observe: func(operation string, took time.Duration, failed bool) {
		requests.WithLabelValues(operation, strconv.FormatBool(failed)).Observe(took.Seconds())
	}})
	return err
}

// tracedFiles returns the file store for the services. With --otlp, the operations of the store create
// spans.
func (a *App) tracedFiles() blob.Store {
	if a.tracer == nil {
		return a.blobs
	}
	return blob.Traced(a.blobs)
}

// createFiles creates the folder of a file store if it does not exist. A file store in S3 needs no
// creation.
func createFiles(c config.Storage, store blob.FileStore) (blob.FileStore, error) {
	if c.Blob != "" {
		return store, nil
	}
	folder, err := blob.NewFolder(filesDir(c))
	if err != nil {
		return nil, err
	}
	return folder, nil
}

// existingFiles opens the file store of an existing vault for a command.
func existingFiles(c config.Storage) (blob.FileStore, error) {
	store, err := openFiles(c)
	if err != nil {
		return nil, err
	}
	return requireFiles(c, store)
}

// openInstalled opens the file store of a database. It returns an error if the store belongs to another
// database.
func openInstalled(ctx context.Context, c config.Storage, d *db.DB) (blob.FileStore, error) {
	store, err := openFiles(c)
	if err != nil {
		return nil, err
	}
	return store, checkInstallation(ctx, c, d, store)
}

// requireFiles is like createFiles, but for an existing vault: it returns an error if the folder of the
// file store does not exist.
func requireFiles(c config.Storage, store blob.FileStore) (blob.FileStore, error) {
	if c.Blob == "" {
		if _, err := os.Stat(filesDir(c)); err != nil {
			return nil, fmt.Errorf("the data folder has no files: %w; set --data to the data folder of the vault", err)
		}
	}
	return createFiles(c, store)
}

// installedFiles opens the file store of an existing vault for a command that changes files. It returns
// an error if the store has no installation id, or belongs to another database.
func (b *Base) installedFiles(ctx context.Context, c config.Storage) (blob.FileStore, error) {
	store, err := openInstalled(ctx, c, b.DB)
	if err != nil {
		return nil, err
	}
	if _, err := store.Installation(ctx); err != nil {
		return nil, errNoStore(c, store, err)
	}
	return store, nil
}

// storeRemedy returns the remedy for a wrong file store.
func storeRemedy(c config.Storage) string {
	if c.Blob != "" {
		return "set --blob to the file store of the database"
	}
	return "set --data to the data folder of the database"
}

// errNoStore adds a remedy to blob.ErrNoInstallation. It returns any other error unchanged.
func errNoStore(c config.Storage, store blob.FileStore, err error) error {
	if errors.Is(err, blob.ErrNoInstallation) {
		return fmt.Errorf("%s: %w; %s, or start certvault serve once", store.Location(), err, storeRemedy(c))
	}
	return err
}
