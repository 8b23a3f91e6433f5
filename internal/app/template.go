package app

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"
	"time"

	"github.com/certvault/certvault/internal/batch"
	"github.com/certvault/certvault/internal/cert"
	"github.com/certvault/certvault/internal/config"
	"github.com/certvault/certvault/internal/job"
	"github.com/certvault/certvault/internal/pdfium"
	"github.com/certvault/certvault/internal/seal"
	"github.com/certvault/certvault/internal/search"
	"github.com/certvault/certvault/internal/template"
	"github.com/certvault/certvault/internal/typeset"
	"github.com/certvault/certvault/internal/web"
)

// Templates returns a service for the templates of an existing vault, and a function that closes it. The
// server may be running. The service runs no jobs and issues no certificates. fonts are the folders to
// search for fonts; see fontFolders. Templates returns an error if the files and the database belong to
// different installations.
func (b *Base) Templates(ctx context.Context, s config.Storage, fonts []string) (_ *template.Service, done func(context.Context) error, err error) {
	blobs, err := b.installedFiles(ctx, s)
	if err != nil {
		return nil, nil, err
	}
	address, err := b.DB.BaseURL(ctx)
	if err != nil {
		return nil, nil, err
	}
	renderer, err := pdfium.New(ctx, pdfium.Options{CompiledDir: s.Cache, CacheDir: s.OwnCache()})
	if err != nil {
		return nil, nil, fmt.Errorf("preparing the PDF renderer: %w", err)
	}
	found, err := typeset.New(fontFolders(s.Data, fonts)...)
	if err != nil {
		return nil, nil, errors.Join(fmt.Errorf("preparing the fonts: %w", err), renderer.Close(ctx))
	}
	log := slog.New(slog.DiscardHandler)
	queue, err := job.New(b.DB, job.Config{NodeID: "template", MaxAttempts: 1, Timeout: cert.SealTimeout, Logger: log})
	if err != nil {
		return nil, nil, errors.Join(err, renderer.Close(ctx))
	}
	certs := cert.New(cert.Config{DB: b.DB, Blobs: blobs, Queue: queue, Hooks: b.Hooks, Now: time.Now, Log: log})
	return template.New(template.Config{
		DB: b.DB, Blobs: blobs, Sealer: seal.New(renderer, found), Fonts: found, Search: search.New(b.DB, b.Keyring, time.Now),
		Batches:   batch.New(batch.Config{DB: b.DB, Keyring: b.Keyring, Certs: certs, Queue: queue, Now: time.Now, Log: log}),
		VerifyURL: web.NewLinks(address, b.Keyring, time.Now).Verify, Now: time.Now, Log: log,
	}), renderer.Close, nil
}

// fontFolders returns the folders to search for fonts. If paths is empty, these are the folder "fonts" in
// the data folder and systemFonts.
func fontFolders(data string, paths []string) (folders []fs.FS) {
	if len(paths) == 0 {
		paths = []string{filepath.Join(data, "fonts"), systemFonts}
	}
	for _, path := range paths {
		folders = append(folders, os.DirFS(path))
	}
	return folders
}
