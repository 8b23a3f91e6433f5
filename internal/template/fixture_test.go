package template_test

import (
	"bytes"
	"context"
	"errors"
	"io"
	"os"
	"path/filepath"
	"sync"
	"testing"

	"github.com/certvault/certvault/internal/account"
	"github.com/certvault/certvault/internal/batch"
	"github.com/certvault/certvault/internal/cert"
	"github.com/certvault/certvault/internal/db"
	"github.com/certvault/certvault/internal/pades"
	"github.com/certvault/certvault/internal/pdfium"
	"github.com/certvault/certvault/internal/seal"
	"github.com/certvault/certvault/internal/template"
	"github.com/certvault/certvault/internal/vault"
	"github.com/certvault/certvault/internal/vaulttest"
)

// fixture is a vault with two institutions.
type fixture struct {
	*vaulttest.Vault

	inst, other *account.Institution
}

func newFixture(t *testing.T, d *db.DB, changes ...func(*vault.Deps)) *fixture {
	t.Helper()
	f := &fixture{Vault: vaulttest.New(t, d, append([]func(*vault.Deps){vaulttest.DrawTemplates}, changes...)...)}
	f.inst = f.Institution("NWU", "Northern & Western University")
	f.other = f.Institution("UTH", "University of the Highlands")
	return f
}

// renderer returns a renderer that all tests share.
var renderer = sync.OnceValues(func() (*pdfium.Renderer, error) {
	cache, err := os.UserCacheDir()
	if err != nil {
		cache = os.TempDir()
	}
	return pdfium.New(context.Background(), pdfium.Options{CacheDir: filepath.Join(cache, "certvault-test", "pdfium")})
})

// sealed returns a change for newFixture: certificates are sealed as in production. If there is no
// renderer, it skips the test, except in CI.
func sealed(t *testing.T) func(*vault.Deps) {
	t.Helper()
	r, err := renderer()
	if errors.Is(err, pdfium.ErrUnavailable) && os.Getenv("CI") != "true" {
		t.Skip(err)
	}
	ok(t, err)
	return func(d *vault.Deps) { d.Sealer, d.Verify = seal.New(r, d.Fonts), pades.Verify }
}

func ok(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

var creator = cert.Actor{Type: "token", ID: 7, Name: "Registry"}

// file returns the content of a file of a certificate.
func file(t *testing.T, c *cert.Certificate, open func(context.Context, *cert.Certificate) (*cert.Content, error)) []byte {
	t.Helper()
	content, err := open(t.Context(), c)
	ok(t, err)
	data, err := io.ReadAll(content)
	ok(t, errors.Join(err, content.Close()))
	return data
}

// upload creates a template on an uploaded design.
func (f *fixture) upload(t *testing.T, name string, design []byte) *template.Template {
	t.Helper()
	created, err := f.Templates.Create(t.Context(), template.NewTemplate{Institution: f.inst, Name: name, Design: bytes.NewReader(design)})
	ok(t, err)
	return created
}

// finish runs the queue until the certificates of a batch are finished, and returns them.
func (f *fixture) finish(t *testing.T, b *batch.Batch) []*cert.Certificate {
	t.Helper()
	f.Until("the batch is finished", func() bool {
		got, err := f.Batches.ByUUID(t.Context(), f.inst.ID, b.UUID, "")
		ok(t, err)
		return got.Processing == 0
	})
	entries, err := f.Batches.AllEntries(t.Context(), b)
	ok(t, err)
	var list []*cert.Certificate
	for _, e := range entries {
		if e.UUID == "" {
			continue
		}
		c, err := f.Certs.ByUUID(t.Context(), f.inst.ID, e.UUID)
		ok(t, err)
		list = append(list, c)
	}
	return list
}
