package authority

import (
	"bytes"
	"context"
	"crypto"
	"crypto/ecdsa"
	"crypto/rsa"
	"encoding/asn1"
	"errors"
	"fmt"
	"io"
	"math/big"
	"os"
	"os/exec"
	"strings"
	"time"
)

// programKey signs through a program, so that a key can stay in a hardware module or a
// service without a driver in the vault.
//
// The program is started for each signature, without a shell, and with the environment
// of the vault except the vault's own settings. On standard input it gets the digest,
// 32 bytes of SHA-256, and CERTVAULT_HASH is SHA256. On standard output it writes the
// signature and nothing else, and exits with 0:
//
//   - for a key on an elliptic curve the DER of Ecdsa-Sig-Value (RFC 3279, 2.2.3), or
//     r and s in their full length one after the other, as PKCS #11 has them;
//   - for an RSA key the signature of PKCS #1 v1.5 over the DigestInfo of that digest
//     (RFC 8017, 8.2.1).
//
// What it writes to standard error goes to the vault's log. With OpenSSL, for both:
//
//	openssl pkeyutl -sign -inkey key.pem -pkeyopt digest:sha256
type programKey struct {
	ctx     context.Context //nolint:containedctx // crypto.Signer has no place for it; the key is made for one use
	command []string
	public  crypto.PublicKey
	timeout time.Duration
}

const (
	maxSignature = 4 << 10 // bytes that a program may write
	maxSaid      = 1 << 10 // bytes of its complaints that are kept
)

// Public returns the public key of the certificate.
func (k *programKey) Public() crypto.PublicKey { return k.public }

// Sign runs the program. The error is a *Fault.
func (k *programKey) Sign(_ io.Reader, digest []byte, options crypto.SignerOpts) ([]byte, error) {
	if options.HashFunc() != crypto.SHA256 || len(digest) != crypto.SHA256.Size() {
		return nil, &Fault{Code: CodeRefused, Err: errors.New("only digests of SHA-256 are signed")} //nolint:err113 // a fault of the caller
	}
	ctx, cancel := context.WithTimeout(k.ctx, k.timeout)
	defer cancel()
	out, said := &limited{left: maxSignature}, &limited{left: maxSaid, cut: true}
	c := exec.CommandContext(ctx, k.command[0], k.command[1:]...) //nolint:gosec // the operator named it
	c.Env = environment()
	c.Stdin, c.Stdout, c.Stderr = bytes.NewReader(digest), out, said
	c.WaitDelay = time.Second // for a child of it that keeps the output open
	if err := c.Run(); err != nil {
		if ctx.Err() != nil {
			err = ctx.Err()
		}
		return nil, &Fault{Code: CodeProgram, Err: fmt.Errorf("run %s: %w: %q", k.command[0], err, said.data)}
	}
	signature, ok := k.accept(digest, out.data)
	if !ok {
		return nil, &Fault{Code: CodeProgram, Err: fmt.Errorf("run %s: what it wrote is no signature of this key", k.command[0])} //nolint:err113 // the code tells it apart
	}
	return signature, nil
}

// accept returns what a program wrote as CMS has it, if that is a signature.
func (k *programKey) accept(digest, written []byte) ([]byte, bool) {
	switch public := k.public.(type) {
	case *rsa.PublicKey:
		return written, rsa.VerifyPKCS1v15(public, crypto.SHA256, digest, written) == nil
	case *ecdsa.PublicKey:
		if ecdsa.VerifyASN1(public, digest, written) {
			return written, true
		}
		n := (public.Params().BitSize + 7) / 8
		if len(written) != 2*n {
			return nil, false
		}
		pair := struct{ R, S *big.Int }{new(big.Int).SetBytes(written[:n]), new(big.Int).SetBytes(written[n:])}
		der, err := asn1.Marshal(pair)
		return der, err == nil && ecdsa.VerifyASN1(public, digest, der)
	}
	return nil, false
}

// environment is that of the vault without its settings, which hold secrets.
func environment() []string {
	var out []string
	for _, v := range os.Environ() {
		if !strings.HasPrefix(v, "CERTVAULT_") {
			out = append(out, v)
		}
	}
	return append(out, "CERTVAULT_HASH=SHA256")
}

// limited keeps what is written to it, up to a limit. Beyond that it fails, or
// with cut forgets.
type limited struct {
	data []byte
	left int
	cut  bool
}

var errTooMuch = errors.New("the program wrote too much")

// Write keeps p.
func (l *limited) Write(p []byte) (int, error) {
	n := min(len(p), l.left)
	l.left -= n
	l.data = append(l.data, p[:n]...)
	if n < len(p) && !l.cut {
		return n, errTooMuch
	}
	return len(p), nil
}
