package app

import (
	"context"
	"path/filepath"

	"golang.org/x/crypto/acme/autocert"
)

// lateCache is a cache of TLS certificates that is available only after the database was opened. The
// public port is open before.
type lateCache struct {
	opened chan struct{}
	cache  autocert.Cache
}

var _ autocert.Cache = (*lateCache)(nil)

func newLateCache() *lateCache { return &lateCache{opened: make(chan struct{})} }

func (l *lateCache) open(c autocert.Cache) {
	l.cache = c
	close(l.opened)
}

// use calls f with the cache as soon as it is available.
func (l *lateCache) use(ctx context.Context, f func(c autocert.Cache) error) error {
	select {
	case <-l.opened:
		return f(l.cache)
	case <-ctx.Done():
		return ctx.Err()
	}
}

// Get implements [autocert.Cache].
func (l *lateCache) Get(ctx context.Context, name string) (value []byte, err error) {
	err = l.use(ctx, func(c autocert.Cache) (err error) {
		value, err = c.Get(ctx, name)
		return err
	})
	return value, err
}

// Put implements [autocert.Cache].
func (l *lateCache) Put(ctx context.Context, name string, value []byte) error {
	return l.use(ctx, func(c autocert.Cache) error { return c.Put(ctx, name, value) })
}

// Delete implements [autocert.Cache].
func (l *lateCache) Delete(ctx context.Context, name string) error {
	return l.use(ctx, func(c autocert.Cache) error { return c.Delete(ctx, name) })
}

// acmeFolder is the folder in which earlier releases stored what is now in the database.
func (a *App) acmeFolder() string { return filepath.Join(a.cfg.Data, "tls", "acme") }
