//go:build e2e

package e2e

import (
	"bytes"
	"encoding/json"
	"log/slog"
	"net"
	"net/http"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/emersion/go-smtp"

	"github.com/certvault/certvault/internal/db/dbtest"
	"github.com/certvault/certvault/test/vault"
)

// queuedTime is the maximum time until a restored vault has sent the mail and webhooks that were queued in
// the backup.
const queuedTime = 2 * time.Minute

// command runs a command with the data folder and the database of a vault, and checks the exit code.
func command(t *testing.T, o vault.Options, code int, args ...string) vault.Result {
	t.Helper()
	r, err := vault.Run(t.Context(), o, "", args...)
	if err != nil || r.Code != code {
		t.Fatalf("certvault %s: exit code = %d, %v; want %d: %s%s", strings.Join(args, " "), r.Code, err, code, r.Stdout, r.Stderr)
	}
	return r
}

// another returns options with an empty data folder, and with an empty PostgreSQL database if the vault
// uses PostgreSQL.
func (f *fixture) another(t *testing.T) vault.Options {
	t.Helper()
	o := vault.Options{Data: empty(t)}
	if f.Database != "" {
		o.Database = dbtest.PostgresURL(t)
	}
	return o
}

// restoredFrom restores a backup to an empty data folder and database, and starts the restored vault.
func (f *fixture) restoredFrom(t *testing.T, backup string, flags, serveArgs []string) *fixture {
	t.Helper()
	return f.restoredTo(t, f.another(t), backup, flags, serveArgs)
}

// restoredTo restores a backup to the data folder and the database in o, and starts the restored vault.
func (f *fixture) restoredTo(t *testing.T, o vault.Options, backup string, flags, serveArgs []string) *fixture {
	t.Helper()
	r := command(t, o, 0, append([]string{"restore", backup, "--json"}, flags...)...)
	var restored struct {
		Files   int `json:"files"`
		Unknown struct {
			Tokens, Members, Keys []json.RawMessage
		} `json:"unknown"`
	}
	if err := json.Unmarshal([]byte(r.Stdout), &restored); err != nil || restored.Files == 0 ||
		len(restored.Unknown.Tokens) != 1 || len(restored.Unknown.Members) != 1 || len(restored.Unknown.Keys) != 1 {
		t.Errorf("restore printed %s, %v; want files, and 1 token, 1 member and 1 signing key as unknown", r.Stdout, err)
	}
	o.Args = unlimited(serveArgs)
	n := &fixture{Vault: serve(t, o), institution: f.institution}
	n.client = n.as(t, f.client.Token)
	return n
}

// TestRestoredVault checks that each certificate of a backup can be downloaded from the restored
// vault and is valid, and that the restored vault works.
func TestRestoredVault(t *testing.T) {
	t.Parallel()
	each(t, func(t *testing.T, database string) {
		f := start(t, database)
		root := writeTemp(t, "root.pem", get(t, f.as(t, ""), "/.well-known/certvault/root.pem", http.StatusOK).Body)
		files := map[string]string{}
		for _, name := range []string{"Ada Obi", "Ben Fox", "Cleo Ray"} {
			c, file := f.uploadApproved(t, name)
			files[c.UUID] = string(file)
		}
		backup := filepath.Join(t.TempDir(), "backup")
		command(t, f.Options, 0, "backup", backup)
		lost, _ := f.uploadApproved(t, "Dan Eze")
		// restore refuses to write to a folder that a running vault uses.
		if r := command(t, f.Options, 1, "restore", backup); !strings.Contains(r.Stderr, "uses the target") {
			t.Errorf("restoring over a running vault printed %q, want that the vault is using the target", r.Stderr)
		}

		badge := writeTemp(t, "badge.svg", get(t, f.client, "/business/certificates/"+lost.UUID+"/credential?format=svg", http.StatusOK).Body)

		n := f.restoredFrom(t, backup, nil, []string{"--base-url", f.URL})
		n.revokeLost(t, badge)
		for uuid, want := range files {
			got := n.verified(t, uuid)
			if string(got) != want {
				t.Errorf("the file of %s has %d bytes, want the %d bytes of the original vault", uuid, len(got), len(want))
			}
			code, out := runOffline(t, "verify", writeTemp(t, uuid+".pdf", got), "--root", root, "--json")
			if code != 0 || !strings.Contains(out, `"valid"`) {
				t.Errorf("verify of %s = %d, want 0: %s", uuid, code, out)
			}
		}
		c, file := n.uploadApproved(t, "Eva Lim")
		if c.ID <= lost.ID+900_000 {
			t.Errorf("the id of a new certificate = %d, want more than 900,000 above %d, the last id of the lost vault", c.ID, lost.ID)
		}
		if code, out := runOffline(t, "verify", writeTemp(t, "new.pdf", file), "--root", root); code != 0 {
			t.Errorf("verify of a new certificate = %d, want 0, because the signing key is restored: %s", code, out)
		}
		if a := get(t, n.client, "/readyz", http.StatusOK); a.Header.Get("Certvault-Drill") != "" || string(a.Body) != "ready\n" {
			t.Errorf("/readyz = %q, want ready and no drill", a.Body)
		}
		if r, err := vault.Run(t.Context(), n.Options, "", "doctor"); err != nil || !strings.Contains(r.Stdout, "WRONG  restore: restored on") {
			t.Errorf("doctor printed %s, %v; want that the restore is not accepted", r.Stdout, err)
		}
		command(t, n.Options, 0, "restore", "--accept")
		if r := command(t, n.Options, 0, "restore"); !strings.Contains(r.Stdout, "was accepted") {
			t.Errorf("restore printed %q, want that the restore was accepted", r.Stdout)
		}
	})
}

// revokeLost revokes the credential in a file. The restored vault does not have its certificate, because
// the certificate was issued after the backup.
func (f *fixture) revokeLost(t *testing.T, file string) {
	t.Helper()
	if r := command(t, f.Options, 0, "verify", file); !strings.Contains(r.Stdout, "does not have its certificate") {
		t.Errorf("verify of the credential of a lost certificate printed %s, want that the vault does not have the certificate", r.Stdout)
	}
	for _, want := range []string{" is revoked.", " was revoked before, "} {
		if r := command(t, f.Options, 0, "credential", "revoke", file, "--reason", "withdrawn"); !strings.Contains(r.Stdout, want) {
			t.Errorf("credential revoke printed %s, want %q", r.Stdout, want)
		}
	}
	if r := command(t, f.Options, 1, "verify", file); !strings.Contains(r.Stdout, "NOT VALID: The issuer revoked the credential.") {
		t.Errorf("verify of the revoked credential printed %s, want that the issuer revoked it", r.Stdout)
	}
}

// checkUnusable checks that serve and restore refuse a data folder that an interrupted restore left
// incomplete.
func checkUnusable(t *testing.T, o vault.Options, backup string) {
	t.Helper()
	for _, args := range [][]string{{"serve"}, {"restore", backup}} {
		if r, err := vault.Run(t.Context(), o, "", args...); err != nil || r.Code != 1 || !strings.Contains(r.Stderr, "interrupted restore") {
			t.Errorf("certvault %s = %d, %v, %s; want 1 and that there is an interrupted restore", args[0], r.Code, err, r.Stderr)
		}
	}
}

// TestInterruptedRestore checks that serve and restore refuse the folder of an interrupted restore, and
// create no database in it.
func TestInterruptedRestore(t *testing.T) {
	t.Parallel()
	f := start(t, "")
	f.uploadApproved(t, "Ada Obi")
	backup := filepath.Join(t.TempDir(), "backup")
	command(t, f.Options, 0, "backup", backup)
	o := f.another(t)
	if err := os.MkdirAll(filepath.Join(o.Data, "restoring"), 0o700); err != nil {
		t.Fatal(err)
	}
	checkUnusable(t, o, backup)
	if _, err := os.Stat(filepath.Join(o.Data, "certvault.db")); err == nil {
		t.Error("a command created a database in the folder of an interrupted restore")
	}
}

// TestKilledRestore kills a restore while it writes. Commands refuse the incomplete folder, and the restore
// can be repeated in another folder.
func TestKilledRestore(t *testing.T) {
	t.Parallel()
	f := start(t, "")
	heavy, err := vault.Sample{Title: "Heavy", Name: "Ada Obi"}.PDFOfSize(maxFile)
	if err != nil {
		t.Fatal(err)
	}
	uuid := f.upload(t, form("Ada Obi").WithFile("heavy.pdf", heavy)).UUID
	f.await(t, uuid, "approved")
	backup := filepath.Join(t.TempDir(), "backup")
	command(t, f.Options, 0, "backup", backup)
	killed := f.another(t)
	binary, err := vault.Binary()
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.CommandContext(t.Context(), binary, "restore", backup, "--data", killed.Data)
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	for began := time.Now(); ; time.Sleep(time.Millisecond) {
		if _, err := os.Stat(filepath.Join(killed.Data, "restoring")); err == nil {
			break
		}
		if time.Since(began) > approvalTime {
			t.Fatal("the restore did not begin")
		}
	}
	if err := cmd.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	if err := cmd.Wait(); err == nil {
		t.Fatal("the restore ended before it was killed")
	}
	checkUnusable(t, killed, backup)
	n := f.restoredFrom(t, backup, nil, nil)
	if got, want := n.verified(t, uuid), f.verified(t, uuid); !bytes.Equal(got, want) {
		t.Errorf("the verified PDF from the second restore has %d bytes, want the same %d bytes as before", len(got), len(want))
	}
}

// TestFilesOnlyBackup restores a backup that contains only files. The database is a copy from before the
// backup, as if it had been restored with the tools of PostgreSQL.
func TestFilesOnlyBackup(t *testing.T) {
	t.Parallel()
	f := start(t, dbtest.MigratedURL(t))
	c, file := f.uploadApproved(t, "Ada Obi")
	if code, err := f.Stop(); err != nil || code != 0 {
		t.Fatalf("stopping the vault = %d, %v, want 0", code, err)
	}
	earlier := dbtest.CopyPostgres(t, f.Database)
	f.restart(t)
	later, _ := f.uploadApproved(t, "Ben Fox")
	backup := filepath.Join(t.TempDir(), "backup")
	command(t, f.Options, 0, "backup", "--files-only", backup)
	command(t, f.Options, 0, "backup", "verify", backup)

	n := f.restoredTo(t, vault.Options{Data: empty(t), Database: earlier}, backup, nil, nil)
	if got := n.verified(t, c.UUID); !bytes.Equal(got, file) {
		t.Errorf("the verified PDF has %d bytes, want the same %d bytes as before", len(got), len(file))
	}
	get(t, n.client, vault.CertificatesPath+"/"+later.UUID, http.StatusNotFound)
	if r, err := vault.Run(t.Context(), n.Options, "", "doctor"); err != nil || !strings.Contains(r.Stdout, "WRONG  restore: restored on") {
		t.Errorf("doctor printed %s, %v; want that the restore is not accepted", r.Stdout, err)
	}
}

// TestDrill checks that a drill sends no mail and no webhooks, and that its pages show that it is a drill.
// A restore of the same backup without --drill sends the mail and the webhooks.
func TestDrill(t *testing.T) {
	t.Parallel()
	each(t, func(t *testing.T, database string) {
		server := newMailServer()
		l, err := new(net.ListenConfig).Listen(t.Context(), "tcp", "127.0.0.1:0")
		if err != nil {
			t.Fatal(err)
		}
		x := smtp.NewServer(server)
		x.Domain, x.ErrorLog = "mx.example.org", slog.NewLogLogger(slog.DiscardHandler, slog.LevelError)
		t.Cleanup(func() { _ = x.Close() })
		go func() { _ = x.Serve(l) }()
		receiver, err := vault.Receive(t.Context(), func(w http.ResponseWriter, _ *vault.Delivered) { w.WriteHeader(http.StatusServiceUnavailable) })
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = receiver.Close() })
		args := func(smtp string) []string {
			return []string{"--smtp", "smtp://" + smtp + "?tls=off", "--mail-from", "no-reply@vault.example",
				"--webhook-allow", "127.0.0.1", "--webhook-retry", "1s,1s,1s,1s,1s,1s,1s,1s,1s,1s,1s,1s,1s,1s,1s"}
		}
		// Nothing listens on this port.
		f := start(t, database, args("127.0.0.1:9")...)
		hook, err := f.CreateWebhook(t.Context(), f.institution.Slug, receiver.URL)
		if err != nil {
			t.Fatal(err)
		}
		f.uploadApproved(t, "Ada Obi")
		backup := filepath.Join(t.TempDir(), "backup")
		command(t, f.Options, 0, "backup", backup)
		if code, err := f.Stop(); err != nil || code != 0 {
			t.Fatalf("stopping the vault = %d, %v, want 0", code, err)
		}
		receiver.Answer(func(w http.ResponseWriter, _ *vault.Delivered) { w.WriteHeader(http.StatusOK) })
		before := len(receiver.Got())
		mails := func() int {
			server.mu.Lock()
			defer server.mu.Unlock()
			return len(server.got)
		}

		drill := f.restoredFrom(t, backup, []string{"--drill"}, args(l.Addr().String()))
		drill.uploadApproved(t, "Ben Fox")
		a := get(t, drill.client, "/business/certificate-vault", http.StatusOK)
		if a.Header.Get("Certvault-Drill") != "true" {
			t.Errorf("header Certvault-Drill = %q, want true", a.Header.Get("Certvault-Drill"))
		}
		for _, path := range []string{"/verify", "/verify?lang=ar", "/sign-in", "/docs", "/signatures"} {
			p, err := drill.as(t, "").Get(t.Context(), path)
			if err != nil || !strings.Contains(string(p.Body), `class="drill"`) {
				t.Errorf("%s does not show that the vault is a drill: %v", path, err)
			}
		}
		if p := get(t, drill.client, "/readyz", http.StatusOK); !strings.Contains(string(p.Body), "drill") {
			t.Errorf("/readyz = %q, want that the vault is a drill", p.Body)
		}
		if !strings.Contains(drill.Stdout(), "drill") || !strings.Contains(drill.Log(), "drill") {
			t.Errorf("the start of a drill printed %q and logged %q, want that it is a drill", drill.Stdout(), drill.Log())
		}
		// In other vaults, these actions send mail and a webhook at once.
		if a, err := drill.as(t, "").PostForm(t.Context(), "/sign-in/link", url.Values{"email": {"owner@nwu.example"}}); err != nil || a.Status != http.StatusSeeOther {
			t.Errorf("requesting a link to sign in: %v, %+v; want 303", err, a)
		}
		// The command waits 20 s for the delivery. The drill must not send anything during this time.
		command(t, drill.Options, 1, "webhook", "test", hook.ID, "--institution", f.institution.Slug)
		if n, m := len(receiver.Got())-before, mails(); n != 0 || m != 0 {
			t.Errorf("the drill sent %d webhooks and %d mails, want none", n, m)
		}
		if r := command(t, drill.Options, 1, "restore", "--accept"); !strings.Contains(r.Stderr, "is a drill") {
			t.Errorf("restore --accept of a drill printed %q, want that it is a drill", r.Stderr)
		}
		if code, err := drill.Stop(); err != nil || code != 0 {
			t.Fatalf("exit code of the drill = %d, %v; want 0", code, err)
		}

		f.restoredFrom(t, backup, nil, args(l.Addr().String()))
		eventually(t, queuedTime, "the restored vault sends the queued mail and webhooks", func() bool {
			return len(receiver.Got()) > before && server.from(mailbox("Ada Obi")) != ""
		})
	})
}
