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

// programKey signs through a program, so that the key can be in a hardware module or a service. The
// server needs no driver for the module.
//
// The program is started for each signature, without a shell, and with the environment of the
// server except for the variables CERTVAULT_*. The program reads the digest, 32 bytes of SHA-256,
// from standard input; the environment variable CERTVAULT_HASH is set to SHA256. The program writes only
// the signature to standard output and exits with 0:
//
//   - for a key on an elliptic curve the DER of Ecdsa-Sig-Value (RFC 3279, 2.2.3), or
//     r and s in full length, concatenated, as in PKCS #11;
//   - for an RSA key the signature of PKCS #1 v1.5 over the DigestInfo of the digest
//     (RFC 8017, 8.2.1).
//
// The standard error of a program that fails is part of the error, truncated to 1 KB. OpenSSL can sign
// with both kinds of keys:
//
//	openssl pkeyutl -sign -inkey key.pem -pkeyopt digest:sha256
type programKey struct {
	ctx     context.Context //nolint:containedctx // crypto.Signer.Sign takes no context; the key is created for one use
	command []string
	public  crypto.PublicKey
	timeout time.Duration
}

const (
	maxSignature = 4 << 10 // maximum size of a signature in bytes
	maxStderr    = 1 << 10 // maximum size of the standard error in an error, in bytes
)

// Public returns the public key of the certificate.
func (k *programKey) Public() crypto.PublicKey { return k.public }

// Sign runs the program and checks that its output is a signature of the digest. The error is a
// *Fault.
func (k *programKey) Sign(_ io.Reader, digest []byte, options crypto.SignerOpts) ([]byte, error) {
	if options.HashFunc() != crypto.SHA256 || len(digest) != crypto.SHA256.Size() {
		return nil, &Fault{Code: CodeRefused, Err: errors.New("only SHA-256 digests are supported")} //nolint:err113 // an error of the caller
	}
	ctx, cancel := context.WithTimeout(k.ctx, k.timeout)
	defer cancel()
	out, stderr := &limited{left: maxSignature}, &limited{left: maxStderr, cut: true}
	c := exec.CommandContext(ctx, k.command[0], k.command[1:]...) //nolint:gosec // the operator configured it
	c.Env = environment()
	c.Stdin, c.Stdout, c.Stderr = bytes.NewReader(digest), out, stderr
	c.WaitDelay = time.Second // a child process may keep the output open
	if err := c.Run(); err != nil {
		if ctx.Err() != nil {
			err = ctx.Err()
		}
		return nil, &Fault{Code: CodeProgram, Err: fmt.Errorf("running %s: %w: %q", k.command[0], err, stderr.data)}
	}
	signature, ok := k.signature(digest, out.data)
	if !ok {
		err := fmt.Errorf("running %s: its output is not a signature by this key", k.command[0]) //nolint:err113 // callers distinguish it by its code
		return nil, &Fault{Code: CodeProgram, Err: err}
	}
	return signature, nil
}

// signature converts the output of a program to the form that CMS uses. The result is false if the
// output is not a signature of the digest by the key.
func (k *programKey) signature(digest, written []byte) ([]byte, bool) {
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

// environment returns the environment of the program. It does not have the settings of the server,
// because they contain secrets.
func environment() []string {
	var out []string
	for _, v := range os.Environ() {
		if !strings.HasPrefix(v, "CERTVAULT_") {
			out = append(out, v)
		}
	}
	return append(out, "CERTVAULT_HASH=SHA256")
}

// limited is a buffer of limited size. At the limit, Write returns an error or, if cut is set,
// discards the rest.
type limited struct {
	data []byte
	left int
	cut  bool
}

var errOutputTooLong = errors.New("the output of the program is too long")

// Write appends p.
func (l *limited) Write(p []byte) (int, error) {
	n := min(len(p), l.left)
	l.left -= n
	l.data = append(l.data, p[:n]...)
	if n < len(p) && !l.cut {
		return n, errOutputTooLong
	}
	return len(p), nil
}
