//go:build e2e

package e2e

import (
	"bytes"
	"errors"
	"slices"
	"testing"
	"time"

	"github.com/certvault/certvault/client"
	"github.com/certvault/certvault/test/vault"
)

// api returns a client of package client with the fixture's token. The client does not repeat
// requests, because repetitions would hide errors from the test.
func (f *fixture) api(t *testing.T) *client.Client {
	t.Helper()
	c, err := client.New(client.Config{URL: f.URL, Token: f.client.Token, HTTP: f.client.HTTP, Retry: client.Retry{Attempts: 1}})
	if err != nil {
		t.Fatal(err)
	}
	return c
}

// certificate converts a form to the input of package client.
func certificate(t *testing.T, form *vault.Form) client.NewCertificate {
	t.Helper()
	file, err := client.SeekFile(form.FileName, bytes.NewReader(form.File))
	if err != nil {
		t.Fatal(err)
	}
	n := client.NewCertificate{File: file}
	targets := map[string]*string{
		"certificate_title": &n.CertificateTitle, "full_name": &n.FullName, "applicant_email": &n.ApplicantEmail, "issue_date": &n.IssueDate, "details": &n.Details,
		"expires_on": &n.ExpiresOn,
	}
	for _, field := range form.Fields {
		target, ok := targets[field.Name]
		if !ok || *target != "" {
			t.Fatalf("the field %q is repeated, or package client does not have the field", field.Name)
		}
		*target = field.Value
	}
	return n
}

// upload uploads a form, which the vault must accept.
func (f *fixture) upload(t *testing.T, form *vault.Form) *client.VaultCertificate {
	t.Helper()
	made, err := f.api(t).Upload(t.Context(), certificate(t, form))
	if err != nil {
		t.Fatal(err)
	}
	return made
}

// await waits until a certificate is no longer in processing, and checks its status. It polls more
// often than Client.Await, so that tests are fast.
func (f *fixture) await(t *testing.T, uuid, status string) *client.VaultCertificate {
	t.Helper()
	return f.awaitFor(t, approvalTime, uuid, status)
}

// awaitFor is like await, with the given time limit.
func (f *fixture) awaitFor(t *testing.T, limit time.Duration, uuid, status string) *client.VaultCertificate {
	t.Helper()
	api := f.api(t)
	var c *client.VaultCertificate
	eventually(t, limit, "certificate "+uuid+" is no longer in processing", func() bool {
		var err error
		if c, err = api.VaultCertificate(t.Context(), uuid); err != nil {
			t.Fatal(err)
		}
		return c.Status.Value != client.Processing
	})
	if c.Status.Value != client.Status(status) {
		t.Fatalf("certificate %s is %s (%+v), want %s", uuid, c.Status.Value, c.Failure, status)
	}
	return c
}

// verified downloads the verified PDF of a certificate.
func (f *fixture) verified(t *testing.T, uuid string) []byte {
	t.Helper()
	var b bytes.Buffer
	if err := f.api(t).Download(t.Context(), uuid, &b); err != nil {
		t.Fatal(err)
	}
	return b.Bytes()
}

// retry makes the vault process a failed certificate again.
func (f *fixture) retry(t *testing.T, uuid string) *client.VaultCertificate {
	t.Helper()
	c, err := f.api(t).RetryProcessing(t.Context(), uuid)
	if err != nil {
		t.Fatal(err)
	}
	return c
}

// revoke revokes a certificate.
func (f *fixture) revoke(t *testing.T, uuid, reason, note string) *client.VaultCertificate {
	t.Helper()
	c, err := f.api(t).Revoke(t.Context(), uuid, reason, note)
	if err != nil {
		t.Fatal(err)
	}
	return c
}

// stage uploads the sample of a person as a file for batches, and returns the id of the file.
func (f *fixture) stage(t *testing.T, name string) string {
	t.Helper()
	file, err := client.SeekFile("diploma.pdf", bytes.NewReader(sample(name)))
	if err != nil {
		t.Fatal(err)
	}
	stored, err := f.api(t).UploadFile(t.Context(), file)
	if err != nil {
		t.Fatal(err)
	}
	return stored.FileID
}

// submit submits a batch, which the vault must accept, and returns the id of the batch.
func (f *fixture) submit(t *testing.T, list []client.Entry) string {
	t.Helper()
	b, err := f.api(t).SubmitBatch(t.Context(), list)
	if err != nil || b.Total != len(list) || b.Status != "processing" {
		t.Fatalf("submitting a batch: got %+v, %v; want all entries in a batch in processing", b, err)
	}
	return b.BatchID
}

// batch returns a batch. It checks that the sum of the counts of the batch is the total.
func (f *fixture) batch(t *testing.T, id string) *client.Batch {
	t.Helper()
	b, err := f.api(t).Batch(t.Context(), id)
	if err != nil {
		t.Fatal(err)
	}
	if b.Processing+b.Approved+b.Failed+b.Rejected+b.Revoked != b.Total {
		t.Errorf("batch = %+v, want counts whose sum is the total", b)
	}
	return b
}

// entriesOf returns the entries of a batch.
func (f *fixture) entriesOf(t *testing.T, id string) (list []*client.BatchEntry) {
	t.Helper()
	for e, err := range f.api(t).BatchEntries(t.Context(), id) {
		if err != nil {
			t.Fatal(err)
		}
		list = append(list, e)
	}
	return list
}

// wantClientError checks that err is a client.Error of the given kind with a request id. It checks the
// message unless message is empty.
func wantClientError(t *testing.T, err, kind error, message string) *client.Error {
	t.Helper()
	e, ok := errors.AsType[*client.Error](err)
	if !ok || !errors.Is(err, kind) || message != "" && e.Message != message || e.RequestID == "" {
		t.Errorf("error = %v, want %v with a request id and the message %q (empty: any message)", err, kind, message)
		return &client.Error{}
	}
	return e
}

// checkDuplicate uploads a certificate that already exists, and checks the error.
func checkDuplicate(t *testing.T, f *fixture, form *vault.Form, uuid string) {
	t.Helper()
	_, err := f.api(t).Upload(t.Context(), certificate(t, form))
	wantDuplicate(t, err, uuid)
}

// wantDuplicate checks that err is ErrDuplicate and contains the UUID of the existing certificate.
func wantDuplicate(t *testing.T, err error, uuid string) {
	t.Helper()
	if e := wantClientError(t, err, client.ErrDuplicate, duplicate); e.Existing() != uuid || !slices.Contains(e.Fields["existing_uuid"], uuid) {
		t.Errorf("error = %v, want the existing certificate %s in it", err, uuid)
	}
}
