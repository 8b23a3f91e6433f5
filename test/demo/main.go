// Command demo starts the built vault with an empty data folder, uploads a certificate and downloads
// the verified PDF. Then it stops the vault and removes the data folder.
package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/signal"
	"path/filepath"
	"syscall"
	"time"

	"github.com/certvault/certvault/test/vault"
)

// limit is the time limit of the whole demonstration.
const limit = 2 * time.Minute

var sample = vault.Sample{
	Institution: "Demo University",
	Title:       "Certificate of Achievement",
	Name:        "Ada Lovelace",
	Line:        "has completed the course Analytical Engines with distinction.",
	Date:        "10 December 2025",
	Emblem:      160,
}

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	err := run(ctx, os.Stdout)
	stop()
	if err != nil {
		fmt.Fprintln(os.Stderr, "demo:", err)
		os.Exit(1)
	}
}

func run(ctx context.Context, out io.Writer) (err error) {
	ctx, cancel := context.WithTimeout(ctx, limit)
	defer cancel()
	target, err := target()
	if err != nil {
		return err
	}
	data, err := os.MkdirTemp("", "certvault-demo-")
	if err != nil {
		return fmt.Errorf("creating a data folder: %w", err)
	}
	defer func() { err = errors.Join(err, os.RemoveAll(data)) }()
	v, err := vault.Start(ctx, vault.Options{Data: data})
	if err != nil {
		return err
	}
	defer func() {
		_, stopErr := v.Stop()
		err = errors.Join(err, stopErr, v.Forget())
	}()
	fmt.Fprintf(out, "Started a vault in a temporary folder: %s\n", v.URL)
	if err := show(ctx, out, v, target); err != nil {
		return fmt.Errorf("%w\n%s", err, v.Log())
	}
	fmt.Fprint(out, "The vault of the demo stops now, so the link no longer works. To start a permanent vault: make run\n")
	return nil
}

// target returns the path for the verified PDF. The demo does not remove the file, so the file is in
// the folder bin, which git ignores and make clean removes.
func target() (string, error) {
	root, err := vault.Root()
	if err != nil {
		return "", err
	}
	dir := filepath.Join(root, "bin")
	if err := os.MkdirAll(dir, 0o750); err != nil {
		return "", fmt.Errorf("creating the folder of the verified PDF: %w", err)
	}
	return filepath.Join(dir, "demo-verified.pdf"), nil
}

func show(ctx context.Context, out io.Writer, v *vault.Vault, target string) error {
	institution, err := v.CreateInstitution(ctx, sample.Institution, "DEMO")
	if err != nil {
		return err
	}
	token, err := v.CreateToken(ctx, institution.Slug, "", vault.Permissions...)
	if err != nil {
		return err
	}
	fmt.Fprintf(out, "Created an institution, %s, and an API token for it.\n", sample.Institution)
	client, err := v.Client(token)
	if err != nil {
		return err
	}
	original := sample.PDF()
	began := time.Now()
	a, err := client.Upload(ctx, vault.NewForm(sample.Title, sample.Name, "ada@example.org", "certificate.pdf", original))
	if err != nil {
		return err
	}
	if a.Status != http.StatusCreated {
		return fmt.Errorf("uploading the certificate: status %d: %s", a.Status, a.Body)
	}
	made, err := a.Certificate()
	if err != nil {
		return err
	}
	fmt.Fprintf(out, "POST %s with certificate.pdf, %d kB, for %s: 201, %s.\n", vault.CertificatesPath, len(original)/1000, sample.Name, made.Status.Value)
	if made, err = client.Await(ctx, made.UUID); err != nil {
		return err
	}
	if made.Status.Value != "approved" {
		return fmt.Errorf("the certificate is %s: %+v", made.Status.Value, made.Failure)
	}
	fmt.Fprintf(out, "Approved %.1f s after the upload began.\n\n", time.Since(began).Seconds())
	return download(ctx, out, client, made, original, target)
}

// download checks that the verified PDF begins with the original, and saves it as the file target.
// Then it prints the public verification of the certificate.
func download(ctx context.Context, out io.Writer, client *vault.Client, made *vault.Certificate, original []byte, target string) error {
	a, err := client.Get(ctx, vault.CertificatesPath+"/"+made.UUID+"/download")
	if err != nil {
		return err
	}
	if a.Status != http.StatusOK || !bytes.HasPrefix(a.Body, original) {
		return fmt.Errorf("the verified PDF (status %d) does not begin with the original", a.Status)
	}
	if err := os.WriteFile(target, a.Body, 0o600); err != nil {
		return fmt.Errorf("writing the verified PDF: %w", err)
	}
	anyone := &vault.Client{URL: client.URL, HTTP: client.HTTP}
	public, err := anyone.Verify(ctx, made.VerificationURL)
	if err != nil {
		return err
	}
	fmt.Fprintf(out, "  Verification link  %s\n", made.VerificationURL)
	fmt.Fprintf(out, "                     result: %s, issued by %s to %s\n", public.Status, public.Institution, public.FullName)
	fmt.Fprintf(out, "  Verified PDF       %s\n", target)
	fmt.Fprintf(out, "                     the original, byte for byte, followed by %d kB\n\n", (len(a.Body)-len(original)+500)/1000)
	return nil
}
