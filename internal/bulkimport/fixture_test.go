package bulkimport_test

import (
	"archive/zip"
	"bytes"
	"context"
	"fmt"
	"strings"
	"sync"
	"testing"

	"github.com/certvault/certvault/internal/account"
	"github.com/certvault/certvault/internal/bulkimport"
	"github.com/certvault/certvault/internal/cert"
	"github.com/certvault/certvault/internal/cert/certtest"
	"github.com/certvault/certvault/internal/db"
	"github.com/certvault/certvault/internal/seal"
	"github.com/certvault/certvault/internal/vault"
	"github.com/certvault/certvault/internal/vaulttest"
)

// sealer is a vaulttest.Sealer that refuses the files whose names are in refuse.
type sealer struct {
	vaulttest.Sealer

	refuse sync.Map
}

func (s *sealer) Seal(ctx context.Context, o seal.Original, stamp seal.Stamp) (*seal.Verified, error) {
	if _, refused := s.refuse.Load(o.Name); refused {
		return nil, certtest.ErrRefused
	}
	return s.Sealer.Seal(ctx, o, stamp)
}

// fixture is a vault with an institution and a person who creates drafts.
type fixture struct {
	*vaulttest.Vault
	*bulkimport.Service

	t      *testing.T
	sealer *sealer
	inst   *account.Institution
	person cert.Actor
}

func newFixture(t *testing.T, d *db.DB) *fixture {
	t.Helper()
	k := &fixture{t: t, sealer: &sealer{}, person: cert.Actor{Type: "user", ID: 7, Name: "Regina Registrar"}}
	k.Vault = vaulttest.New(t, d, func(d *vault.Deps) { d.Sealer, d.Attempts = k.sealer, 3 })
	k.Service = k.BulkImports
	k.inst = k.institution("NWU")
	return k
}

func (k *fixture) institution(prefix string) *account.Institution {
	k.t.Helper()
	return k.Institution(prefix, "University "+prefix)
}

// ok fails the test on an error.
func (k *fixture) ok(err error) {
	k.t.Helper()
	if err != nil {
		k.t.Fatal(err)
	}
}

// one returns the single value that a query selects.
func one[T any](k *fixture, query string, args ...any) (value T) {
	k.t.Helper()
	if err := k.DB.QueryRowContext(k.t.Context(), query, args...).Scan(&value); err != nil {
		k.t.Fatalf("running the query %s: %v", query, err)
	}
	return value
}

func (k *fixture) create() *bulkimport.Draft {
	k.t.Helper()
	d, err := k.Create(k.t.Context(), k.inst, k.person)
	k.ok(err)
	return d
}

// reload returns the current state of a draft.
func (k *fixture) reload(d *bulkimport.Draft) *bulkimport.Draft {
	k.t.Helper()
	got, err := k.ByUUID(k.t.Context(), k.inst.ID, k.person.ID, d.UUID)
	k.ok(err)
	return got
}

// list uploads a list to a draft and confirms the detected columns.
func (k *fixture) list(d *bulkimport.Draft, text string) *bulkimport.Draft {
	k.t.Helper()
	k.ok(k.SetList(k.t.Context(), d, "class of 2026.csv", strings.NewReader(text)))
	d = k.reload(d)
	k.ok(k.SetMapping(k.t.Context(), d, d.Mapping))
	return k.reload(d)
}

func (k *fixture) file(d *bulkimport.Draft, name string) {
	k.t.Helper()
	_, err := k.AddFile(k.t.Context(), k.inst, d, name, bytes.NewReader(vaulttest.PDF))
	k.ok(err)
}

func (k *fixture) review(d *bulkimport.Draft) *bulkimport.Review {
	k.t.Helper()
	v, err := k.Review(k.t.Context(), k.reload(d))
	k.ok(err)
	return v
}

// finish runs the queue until a submitted draft is finished.
func (k *fixture) finish(d *bulkimport.Draft) *bulkimport.Progress {
	k.t.Helper()
	var p *bulkimport.Progress
	k.Until("all rows are done", func() bool {
		if k.reload(d).Status != bulkimport.Submitted {
			return false
		}
		var err error
		p, err = k.Progress(k.t.Context(), d)
		k.ok(err)
		return p.Finished()
	})
	return p
}

// rows returns a list with n people and the names of their files.
func rows(n int) string {
	var b strings.Builder
	b.WriteString("Title,Full name,Email,File,Issue date\n")
	for i := range n {
		fmt.Fprintf(&b, "BSc Physics,Person %d,person.%d@example.org,%d.pdf,2026-06-30\n", i, i, i)
	}
	return b.String()
}

// zipOf returns a ZIP file that contains files.
func zipOf(t *testing.T, files ...zipFile) []byte {
	t.Helper()
	var b bytes.Buffer
	w := zip.NewWriter(&b)
	for _, f := range files {
		h := f.FileHeader
		if h.Method == 0 && !f.isStored {
			h.Method = zip.Deflate
		}
		part, err := w.CreateHeader(&h)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := part.Write(f.content); err != nil {
			t.Fatal(err)
		}
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	return b.Bytes()
}

type zipFile struct {
	zip.FileHeader

	content  []byte
	isStored bool
}

func entry(name string, content []byte) zipFile {
	return zipFile{FileHeader: zip.FileHeader{Name: name}, content: content}
}
