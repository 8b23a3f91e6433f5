package authority

import (
	"crypto/x509"
	"encoding/pem"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
)

// entry is a stored key. Earlier versions stored each entry as a JSON file.
type entry struct {
	Kind Kind `json:"kind"`
	// Certificates is the chain in PEM, the certificate of the key first.
	Certificates string `json:"certificates"`
	// Key is the PKCS #8 form of the private key, encrypted with age and armored.
	Key string `json:"key,omitempty"`
	// Command is the signer program and its arguments.
	Command []string `json:"command,omitempty"`
}

// maxFile is the maximum size in bytes of a file with an identity, a key or certificates.
const maxFile = 1 << 20

// createFile creates a file atomically and durably, with its folder. It never overwrites a file:
// the error is errExists if the file already exists, otherwise a *Fault.
func createFile(name string, data []byte) (err error) {
	storage := func(err error) error {
		if err == nil {
			return nil
		}
		return &Fault{Code: CodeStorage, Err: fmt.Errorf("writing a key: %w", err)}
	}
	dir := filepath.Dir(name)
	if err := makeFolder(dir); err != nil {
		return storage(err)
	}
	tmp, err := os.CreateTemp(dir, ".new-*") // with mode 0600
	if err != nil {
		return storage(err)
	}
	defer func() {
		if remove := os.Remove(tmp.Name()); err == nil {
			err = storage(remove)
		}
	}()
	_, err = tmp.Write(data)
	if err := errors.Join(err, tmp.Sync(), tmp.Close()); err != nil {
		return storage(err)
	}
	if err := os.Link(tmp.Name(), name); err != nil {
		if errors.Is(err, fs.ErrExist) {
			return errExists
		}
		return storage(err)
	}
	return storage(syncFolder(dir))
}

// replaceFile replaces the content of a file atomically and durably.
func replaceFile(name string, data []byte) (err error) {
	dir := filepath.Dir(name)
	tmp, err := os.CreateTemp(dir, ".new-*") // with mode 0600
	if err != nil {
		return err
	}
	defer func() {
		if err != nil {
			err = errors.Join(err, os.Remove(tmp.Name()))
		}
	}()
	_, err = tmp.Write(data)
	if err := errors.Join(err, tmp.Sync(), tmp.Close()); err != nil {
		return err
	}
	if err := os.Rename(tmp.Name(), name); err != nil {
		return err
	}
	return syncFolder(dir)
}

// makeFolder creates a folder and its parents durably.
func makeFolder(dir string) error {
	if _, err := os.Stat(dir); err == nil {
		return nil
	}
	parent := filepath.Dir(dir)
	if parent != dir {
		if err := makeFolder(parent); err != nil {
			return err
		}
	}
	if err := os.Mkdir(dir, 0o700); err != nil && !errors.Is(err, fs.ErrExist) {
		return fmt.Errorf("creating a folder: %w", err)
	}
	return syncFolder(parent)
}

func syncFolder(dir string) error {
	d, err := os.Open(dir)
	if err != nil {
		return fmt.Errorf("syncing a folder: %w", err)
	}
	if err := errors.Join(d.Sync(), d.Close()); err != nil {
		return fmt.Errorf("syncing a folder: %w", err)
	}
	return nil
}

// readFile returns the content of a file of at most maxFile bytes. The error is a *Fault.
func readFile(name string) ([]byte, error) {
	f, err := os.Open(name)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, &Fault{Code: CodeMissing, Err: fmt.Errorf("reading a key: %w", err)}
	}
	if err != nil {
		return nil, &Fault{Code: CodeStorage, Err: fmt.Errorf("reading a key: %w", err)}
	}
	data, err := io.ReadAll(io.LimitReader(f, maxFile+1))
	if err := errors.Join(err, f.Close()); err != nil {
		return nil, &Fault{Code: CodeStorage, Err: fmt.Errorf("reading a key: %w", err)}
	}
	if len(data) > maxFile {
		return nil, &Fault{Code: CodeBroken, Err: fmt.Errorf("%s is too large", name)} //nolint:err113 // callers distinguish it by its code
	}
	return data, nil
}

// maxChain is the maximum number of certificates in a chain.
const maxChain = 16

// parseChain returns the certificates in a PEM text. It returns an error if there is none or if
// there are more than maxChain.
func parseChain(text []byte) ([]*x509.Certificate, error) {
	var chain []*x509.Certificate
	for block, rest := pem.Decode(text); block != nil; block, rest = pem.Decode(rest) {
		if block.Type != "CERTIFICATE" {
			continue
		}
		c, err := x509.ParseCertificate(block.Bytes)
		if err != nil {
			return nil, fmt.Errorf("reading a certificate: %w", err)
		}
		if chain = append(chain, c); len(chain) > maxChain {
			return nil, fmt.Errorf("more than %d certificates", maxChain) //nolint:err113 // no caller distinguishes it
		}
	}
	if len(chain) == 0 {
		return nil, errors.New("no certificate in PEM") //nolint:err113 // no caller distinguishes it
	}
	return chain, nil
}
