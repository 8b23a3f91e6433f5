package authority

import (
	"context"
	"crypto"
	"crypto/ecdsa"
	"crypto/rand"
	"crypto/rsa"
	"crypto/sha256"
	"crypto/x509"
	"encoding/pem"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/certvault/certvault/internal/db/dbtest"
)

// writeScript writes a signer program and returns its path.
func writeScript(t *testing.T, text string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "sign")
	if err := os.WriteFile(path, []byte("#!/bin/sh\n"+text), 0o700); err != nil {
		t.Fatal(err)
	}
	return path
}

// requireTools skips the test if one of the tools is not installed. With CI=true, it fails the test
// instead.
func requireTools(t *testing.T, tools ...string) {
	t.Helper()
	for _, name := range tools {
		if _, err := exec.LookPath(name); err == nil {
			continue
		}
		if os.Getenv("CI") == "true" {
			t.Fatalf("%s is not installed", name)
		}
		t.Skipf("%s is not installed", name)
	}
}

func TestProgramSigns(t *testing.T) {
	t.Parallel()
	requireTools(t, "openssl")
	rsaKey, err := rsa.GenerateKey(rand.Reader, 2048)
	if err != nil {
		t.Fatal(err)
	}
	for name, key := range map[string]crypto.Signer{"EC": newKey(t), "RSA": rsaKey} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			a := open(t, dbtest.SQLite(t), options())
			b := newImported(t, key, nil)
			raw, err := x509.MarshalPKCS8PrivateKey(key)
			if err != nil {
				t.Fatal(err)
			}
			file := filepath.Join(t.TempDir(), "key.pem")
			if err := os.WriteFile(file, pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: raw}), 0o600); err != nil {
				t.Fatal(err)
			}
			program := writeScript(t, `[ "$CERTVAULT_HASH" = SHA256 ] && [ "$1" = "an argument" ] && exec openssl pkeyutl -sign -inkey "$2" -pkeyopt digest:sha256`)
			if err := a.UseProgram(t.Context(), university, encodePEM(b.chain), []string{program, "an argument", file}, nil); err != nil {
				t.Fatal(err)
			}
			requireSigning(t, a, b.chain[2])
			if list, err := a.Certificates(t.Context(), university); err != nil || list[0].Kind != Program {
				t.Errorf("Certificates = %v, error %v; want the kind program", list, err)
			}
			if err := os.Remove(file); err != nil {
				t.Fatal(err)
			}
			signer, err := a.Signer(t.Context(), university)
			if err != nil {
				t.Fatal(err)
			}
			_, err = signer.Key.Sign(nil, make([]byte, 32), crypto.SHA256)
			requireFault(t, err, CodeProgram)
		})
	}
}

func TestProgramErrors(t *testing.T) {
	t.Parallel()
	b := newImported(t, newKey(t), nil)
	for name, text := range map[string]string{
		"fails":                      "echo no token >&2; exit 1",
		"writes nothing":             "exit 0",
		"writes no signature":        "echo hello",
		"output is too long":         "exec cat /dev/zero",
		"standard error is too long": "exec cat /dev/zero >&2",
		"hangs":                      "exec sleep 60",
		"child hangs":                "sleep 5 & exit 0",
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			o := options()
			o.ProgramTimeout = time.Second
			a := open(t, dbtest.SQLite(t), o)
			err := a.UseProgram(t.Context(), university, encodePEM(b.chain), []string{writeScript(t, text)}, nil)
			requireFault(t, err, CodeProgram)
			if text := fmt.Sprint(err); len(text) > 6000 {
				t.Errorf("the error has %d bytes, want at most 6000", len(text))
			}
		})
	}
	a := open(t, dbtest.SQLite(t), options())
	requireFault(t, a.UseProgram(t.Context(), university, encodePEM(b.chain), []string{"sign"}, nil), CodeRefused)
	requireFault(t, a.UseProgram(t.Context(), university, encodePEM(b.chain), nil, nil), CodeRefused)
	requireFault(t, a.UseProgram(t.Context(), university, encodePEM(b.chain), []string{"/nowhere/sign"}, nil), CodeProgram)
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	requireFault(t, a.UseProgram(ctx, university, encodePEM(b.chain), []string{writeScript(t, "exit 0")}, nil), CodeProgram)
}

// A program may write r and s concatenated, which is the form of PKCS #11.
func TestProgramReturnsRawSignature(t *testing.T) {
	t.Parallel()
	key := newKey(t)
	digest := sha256.Sum256([]byte("x"))
	r, s, err := ecdsa.Sign(rand.Reader, key, digest[:])
	if err != nil {
		t.Fatal(err)
	}
	pair := make([]byte, 64)
	r.FillBytes(pair[:32])
	s.FillBytes(pair[32:])
	k := programKey{public: key.Public()}
	signature, ok := k.signature(digest[:], pair)
	if !ok || !ecdsa.VerifyASN1(&key.PublicKey, digest[:], signature) {
		t.Errorf("the concatenated signature %x is not accepted, or its DER form is not valid", pair)
	}
}

// The environment of the program does not contain the settings of the vault, which contain secrets.
func TestProgramEnvironment(t *testing.T) {
	t.Setenv("CERTVAULT_DATABASE", "postgres://secret")
	t.Setenv("SOFTHSM2_CONF", "/etc/softhsm2.conf")
	text := strings.Join(environment(), "\n")
	if strings.Contains(text, "secret") || !strings.Contains(text, "SOFTHSM2_CONF=/etc/softhsm2.conf") {
		t.Errorf("the environment of the program is %s, want SOFTHSM2_CONF and no setting of the vault", text)
	}
}

// publicKey is a key whose private part is not available.
type publicKey struct {
	crypto.Signer

	public crypto.PublicKey
}

func (k publicKey) Public() crypto.PublicKey { return k.public }

// A program can use a key in a hardware module through pkcs11-tool. SoftHSM replaces the hardware module.
func TestProgramWithPKCS11(t *testing.T) {
	t.Parallel()
	requireTools(t, "softhsm2-util", "pkcs11-tool")
	modules, err := filepath.Glob("/usr/lib*/softhsm/libsofthsm2.so")
	if err != nil || len(modules) == 0 {
		t.Fatalf("the module of SoftHSM is not in /usr/lib*/softhsm, where Debian installs it; error %v", err)
	}
	dir := t.TempDir()
	conf := filepath.Join(dir, "softhsm2.conf")
	if err := errors.Join(os.Mkdir(filepath.Join(dir, "tokens"), 0o700),
		os.WriteFile(conf, []byte("directories.tokendir = "+dir+"/tokens\n"), 0o600)); err != nil {
		t.Fatal(err)
	}
	const login = " --token-label vault --pin 1234 "
	tool := "export SOFTHSM2_CONF=" + conf + "\npkcs11-tool --module " + modules[0] + login
	for _, text := range []string{
		"export SOFTHSM2_CONF=" + conf + "\nsofthsm2-util --init-token --free --label vault --pin 1234 --so-pin 5678",
		tool + "--keypairgen --key-type EC:prime256v1 --id 01 --label sign",
		tool + "--read-object --type pubkey --id 01 -o " + dir + "/public.der",
	} {
		if out, err := exec.CommandContext(t.Context(), writeScript(t, text)).CombinedOutput(); err != nil {
			t.Fatalf("preparing the software module: %v: %s", err, out)
		}
	}
	der, err := os.ReadFile(filepath.Join(dir, "public.der"))
	if err != nil {
		t.Fatal(err)
	}
	public, err := x509.ParsePKIXPublicKey(der)
	if err != nil {
		t.Fatal(err)
	}
	b := newImported(t, publicKey{public: public}, nil)
	a := open(t, dbtest.SQLite(t), options())
	if err := a.UseProgram(t.Context(), university, encodePEM(b.chain), []string{writeScript(t, tool+"--sign --mechanism ECDSA --id 01")}, nil); err != nil {
		t.Fatal(err)
	}
	requireSigning(t, a, b.chain[2])
}
