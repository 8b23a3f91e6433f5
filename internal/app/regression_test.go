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

// receiver is a vault whose connections to the database can be broken, with clients that upload files.
type receiver struct {
	*testing.T

	app   *App
	proxy *dbtest.Proxy
	// direct is the database, accessed without the proxy.
	direct *db.DB
	inst   *account.Institution
	// program has a token; person has a session.
	program, person *vault.Client
}

func newReceiver(t *testing.T) *receiver {
	t.Helper()
	database := dbtest.MigratedURL(t)
	r := &receiver{T: t}
	var proxied string
	r.proxy, proxied = dbtest.NewProxy(t, database)
	r.direct = dbtest.Open(t, "", database)
	r.app = newApp(t, warmFolder(t), &bytes.Buffer{}, func(c *config.Serve) { c.Database = proxied })
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

// post sends a form with a file. If the client has a token, the idempotency key is the name of the
// file.
func (r *receiver) post(c *vault.Client, target, field, name string) *vault.Response {
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

// originals maps the keys of the stored originals to their paths.
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

// keys returns the keys of the originals in the rows with the given file name.
func (r *receiver) keys(name string) []string {
	r.Helper()
	keys, err := db.Column[string](r.direct.QueryContext(r.Context(), `
		SELECT original_key FROM certificates WHERE file_name = $1 UNION SELECT original_key FROM staged_files WHERE file_name = $1`, name))
	if err != nil {
		r.Fatal(err)
	}
	return keys
}

// sweep makes all originals old enough for the sweep of files, and runs this sweep.
func (r *receiver) sweep() {
	r.Helper()
	old := time.Now().Add(-24 * time.Hour)
	for _, path := range r.originals() {
		if err := os.Chtimes(path, old, old); err != nil {
			r.Fatal(err)
		}
	}
	if err := r.direct.Tx(r.Context(), func(tx *db.Tx) error {
		_, err := tx.ExecContext(r.Context(), `UPDATE blob_sweeps SET next_at = 0`)
		return err
	}); err != nil {
		r.Fatal(err)
	}
	if err := r.app.Deletions.Sweep(r.Context()); err != nil {
		r.Fatal(err)
	}
}

// TestRegressionLostResponseToACommitRetainsTheFile checks that a fixed bug does not return: if the
// response to the commit of an upload in the panel was lost, the row was committed but the file was
// deleted. For all four ways to upload a file, the test checks three properties. A committed row has its
// file although the client received an error. The sweep deletes a file without a row. A second attempt
// succeeds.
func TestRegressionLostResponseToACommitRetainsTheFile(t *testing.T) {
	t.Parallel()
	r := newReceiver(t)
	panel := "/panel/" + r.inst.Slug
	draft := func() string {
		a, err := r.person.PostForm(t.Context(), panel+"/bulk", url.Values{})
		if err != nil || a.Status != http.StatusSeeOther {
			t.Fatalf("the bulk upload was not created: %v, %+v", err, a)
		}
		return a.Header.Get("Location") + "/files"
	}()
	for _, upload := range []struct {
		name, target, field string
		client              *vault.Client
		status              int
	}{
		{"single", vault.CertificatesPath, "certificate_file", r.program, http.StatusCreated},
		{"staged", vault.CertificatesPath + "/upload-file", "file", r.program, http.StatusCreated},
		{"panel", panel + "/upload", "file", r.person, http.StatusSeeOther},
		{"bulk", draft, "files", r.person, http.StatusSeeOther},
	} {
		for _, committed := range []bool{true, false} {
			scenario, name := upload.name+" with a lost response", upload.name+"-committed.pdf"
			lose := r.proxy.LoseResponse
			if !committed {
				scenario, name, lose = upload.name+" with a lost commit", upload.name+"-lost.pdf", r.proxy.LoseCommit
			}
			before := r.originals()
			lose(name)
			if a := r.post(upload.client, upload.target, upload.field, name); a.Status != http.StatusServiceUnavailable || a.Header.Get("Retry-After") == "" || r.proxy.Armed() {
				t.Fatalf("%s: status = %d, want 503: %s", scenario, a.Status, a.Body)
			}
			keys, files := r.keys(name), r.originals()
			if len(files) != len(before)+1 {
				t.Fatalf("%s: %d files, want 1 more than %d", scenario, len(files), len(before))
			}
			if committed && (len(keys) != 1 || files[keys[0]] == "") || !committed && len(keys) != 0 {
				t.Fatalf("%s: keys = %v, files = %v; want 1 row with its file after a commit, and no row otherwise", scenario, keys, files)
			}
			r.sweep()
			after := r.originals()
			if committed && after[keys[0]] == "" {
				t.Errorf("%s: the sweep deleted the file of a row", scenario)
			}
			if !committed && len(after) != len(before) {
				t.Errorf("%s: %d files after the sweep, want %d", scenario, len(after), len(before))
			}
			again := r.post(upload.client, upload.target, upload.field, name)
			if again.Status != upload.status {
				t.Errorf("%s: status of the second attempt = %d, want %d: %s", scenario, again.Status, upload.status, again.Body)
			}
			// A repeated request with the same key returns the lost response.
			if replayed := again.Header.Get("Idempotency-Replayed") == "true"; replayed != (committed && upload.client == r.program) {
				t.Errorf("%s: replayed = %v, want true only for a committed request with an idempotency key", scenario, replayed)
			}
			r.sweep()
			for _, key := range r.keys(name) {
				if r.originals()[key] == "" {
					t.Errorf("%s: the file of a row is missing", scenario)
				}
			}
		}
	}
}
