package app

import (
	"bytes"
	"context"
	"io/fs"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/certvault/certvault/internal/account"
	"github.com/certvault/certvault/internal/config"
	"github.com/certvault/certvault/internal/db"
	"github.com/certvault/certvault/internal/db/dbtest"
	"github.com/certvault/certvault/internal/token"
	"github.com/certvault/certvault/test/vault"
)

// receiver is a vault whose connections to the database can break, with all clients that upload to
// it.
type receiver struct {
	*testing.T

	app   *App
	proxy *dbtest.Proxy
	// direct is the database without the proxy.
	direct *db.DB
	inst   *account.Institution
	// program has a token, person a session.
	program, person *vault.Client
}

func newReceiver(t *testing.T) *receiver {
	t.Helper()
	database := dbtest.PostgresURL(t)
	r := &receiver{T: t}
	var proxied string
	r.proxy, proxied = dbtest.NewProxy(t, database)
	r.direct = dbtest.Open(t, "", database)
	r.app = newApp(t, warm(t), &bytes.Buffer{}, func(c *config.Serve) { c.Database = proxied })
	ctx := t.Context()
	const owner = "owner@example.org"
	var err error
	if r.inst, err = r.app.Accounts.CreateInstitution(ctx, account.NewInstitution{
		Name: "Northwest University", Prefix: "NWU", OwnerEmail: owner, OwnerName: "Owner", OwnerPassword: vault.OwnerPassword,
	}); err != nil {
		t.Fatal(err)
	}
	if err := r.app.start(ctx); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := r.app.close(context.WithoutCancel(ctx)); err != nil {
			t.Error(err)
		}
	})
	v := &vault.Vault{Options: vault.Options{Data: r.app.cfg.Data}, URL: r.app.cfg.BaseURL}
	_, secret, err := r.app.Tokens.Create(ctx, r.inst.ID, "Test", token.All, nil)
	if err != nil {
		t.Fatal(err)
	}
	if r.program, err = v.Client(secret); err != nil {
		t.Fatal(err)
	}
	if r.person, err = v.Client(""); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(r.program.HTTP.CloseIdleConnections)
	t.Cleanup(r.person.HTTP.CloseIdleConnections)
	if r.person.Session, err = v.SignIn(ctx, owner, vault.OwnerPassword); err != nil {
		t.Fatal(err)
	}
	return r
}

// post sends a file in a form, with the name of the file as key.
func (r *receiver) post(c *vault.Client, target, field, name string) *vault.Answer {
	r.Helper()
	form := vault.NewForm("Diploma "+name, "Ada Obi", "ada@example.org", name, sample(name))
	form.FileField = field
	contentType, body, err := form.Encode()
	if err != nil {
		r.Fatal(err)
	}
	req, err := c.Request(r.Context(), http.MethodPost, target, body)
	if err != nil {
		r.Fatal(err)
	}
	req.Header.Set("Content-Type", contentType)
	if c == r.program {
		req.Header.Set("Idempotency-Key", name)
	}
	a, err := c.Send(req)
	if err != nil {
		r.Fatal(err)
	}
	return a
}

// originals returns the keys of the stored originals.
func (r *receiver) originals() map[string]string {
	r.Helper()
	found := map[string]string{}
	root := filepath.Join(r.app.cfg.Data, "files", "blobs")
	if err := filepath.WalkDir(root, func(path string, d fs.DirEntry, err error) error {
		if key, ok := strings.CutPrefix(path, root+"/"); err == nil && !d.IsDir() && ok && strings.HasSuffix(key, ".original") {
			found[key] = path
		}
		return err
	}); err != nil {
		r.Fatal(err)
	}
	return found
}

// keys returns the keys of the originals with a name that rows refer to.
func (r *receiver) keys(name string) []string {
	r.Helper()
	keys, err := db.Column[string](r.direct.QueryContext(r.Context(), `
		SELECT original_key FROM certificates WHERE file_name = $1 UNION SELECT original_key FROM staged_files WHERE file_name = $1`, name))
	if err != nil {
		r.Fatal(err)
	}
	return keys
}

// sweep makes all files old enough for the sweep, and runs the sweep.
func (r *receiver) sweep() {
	r.Helper()
	old := time.Now().Add(-24 * time.Hour)
	for _, path := range r.originals() {
		if err := os.Chtimes(path, old, old); err != nil {
			r.Fatal(err)
		}
	}
	if err := r.app.Certs.SweepBlobs(r.Context(), r.app.BulkImports.RefersTo, r.app.Batches.RefersTo); err != nil {
		r.Fatal(err)
	}
}

// An upload in the panel lost its file when the answer to the commit was lost: the
// row was committed, and the file was deleted. For all four ways to upload a file, a
// committed row has its file although the client got an error, the sweep deletes a
// file without a row, and a second attempt succeeds.
func TestRegressionLostAnswerToACommitKeepsTheFile(t *testing.T) {
	t.Parallel()
	r := newReceiver(t)
	panel := "/panel/" + r.inst.Slug
	draft := func() string {
		a, err := r.person.PostForm(t.Context(), panel+"/bulk", url.Values{})
		if err != nil || a.Status != http.StatusSeeOther {
			t.Fatalf("a bulk upload is not begun: %v, %+v", err, a)
		}
		return a.Header.Get("Location") + "/files"
	}()
	for _, way := range []struct {
		name, target, field string
		client              *vault.Client
		status              int
	}{
		{"single", vault.CertificatesPath, "certificate_file", r.program, http.StatusCreated},
		{"staged", vault.CertificatesPath + "/upload-file", "file", r.program, http.StatusCreated},
		{"panel", panel + "/upload", "file", r.person, http.StatusSeeOther},
		{"bulk", draft, "files", r.person, http.StatusSeeOther},
	} {
		for _, made := range []bool{true, false} {
			what, name := way.name+", the answer is lost", way.name+"-made.pdf"
			lose := r.proxy.LoseAnswer
			if !made {
				what, name, lose = way.name+", the commit is lost", way.name+"-lost.pdf", r.proxy.LoseCommit
			}
			before := r.originals()
			lose(name)
			if a := r.post(way.client, way.target, way.field, name); a.Status != http.StatusInternalServerError || r.proxy.Armed() {
				t.Fatalf("%s: %d %s", what, a.Status, a.Body)
			}
			keys, files := r.keys(name), r.originals()
			if len(files) != len(before)+1 {
				t.Fatalf("%s: %d files, and %d before", what, len(files), len(before))
			}
			if made && (len(keys) != 1 || files[keys[0]] == "") || !made && len(keys) != 0 {
				t.Fatalf("%s: the rows have %v, the files are %v", what, keys, files)
			}
			r.sweep()
			after := r.originals()
			if made && after[keys[0]] == "" {
				t.Errorf("%s: the sweep took the file of a row", what)
			}
			if !made && len(after) != len(before) {
				t.Errorf("%s: %d files after the sweep, and %d before", what, len(after), len(before))
			}
			again := r.post(way.client, way.target, way.field, name)
			if again.Status != way.status {
				t.Errorf("%s: again: %d %s", what, again.Status, again.Body)
			}
			// A repeated request with the same key returns the lost answer.
			if replayed := again.Header.Get("Idempotency-Replayed") == "true"; replayed != (made && way.client == r.program) {
				t.Errorf("%s: replayed is %v", what, replayed)
			}
			r.sweep()
			for _, key := range r.keys(name) {
				if r.originals()[key] == "" {
					t.Errorf("%s: a row has lost its file", what)
				}
			}
		}
	}
}
