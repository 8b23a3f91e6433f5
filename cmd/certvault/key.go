package main

import (
	"crypto/x509"
	"errors"
	"fmt"
	"io"
	"os"
	"time"

	"github.com/certvault/certvault/internal/account"
	"github.com/certvault/certvault/internal/app"
	"github.com/certvault/certvault/internal/audit"
	"github.com/certvault/certvault/internal/authority"
	"github.com/certvault/certvault/internal/config"
)

type keyCommand struct {
	List       keyList       `cmd:"" help:"List the certificates of an institution's signing keys, the current one first."`
	Rotate     keyRotate     `cmd:"" help:"Create a new signing key for an institution. Existing verified PDFs remain verifiable."`
	Import     keyImport     `cmd:"" help:"Import an institution's own signing key, from PKCS #12 or PEM."`
	Program    keyProgram    `cmd:"" help:"Register a program that signs for an institution, for example with a key in an HSM."`
	Credential keyCredential `cmd:"" help:"List the keys with which an institution signs credentials, or create new ones."`
	Root       keyRoot       `cmd:"" help:"Print the root certificates of the signing keys, or create a new root."`
	Protect    keyProtect    `cmd:"" help:"Encrypt the identity that decrypts the signing keys, with the passphrase of --key-passphrase-file."`
	Sheet      keySheet      `cmd:"" help:"Print a recovery sheet with the master key and the identity, to keep on paper."`
	Recover    keyRecover    `cmd:"" help:"Create the files of the master key and of the identity from a recovery sheet that was typed in."`
}

// keyRow is one row of the output: the certificate of a signing key, or a root certificate.
type keyRow struct {
	Current     bool           `json:"current"`
	Kind        authority.Kind `json:"kind"`
	Subject     string         `json:"subject"`
	Issuer      string         `json:"issuer"`
	ValidFrom   time.Time      `json:"valid_from"`
	ValidUntil  time.Time      `json:"valid_until"`
	Fingerprint string         `json:"fingerprint"`
}

func newKeyRow(i int, kind authority.Kind, c *x509.Certificate) keyRow {
	return keyRow{
		Current: i == 0, Kind: kind, Subject: c.Subject.String(), Issuer: c.Issuer.String(),
		ValidFrom: c.NotBefore.UTC(), ValidUntil: c.NotAfter.UTC(), Fingerprint: authority.Fingerprint(c),
	}
}

func keyTable(w io.Writer, rows []keyRow) {
	table := newTable(w, "", "KIND", "SUBJECT", "VALID UNTIL", "SHA-256")
	for _, r := range rows {
		table.row(currentMark(r.Current), r.Kind, r.Subject, r.ValidUntil.Format(time.DateOnly), r.Fingerprint)
	}
	table.flush()
}

// currentMark returns the mark of the current key in a table.
func currentMark(current bool) string {
	if current {
		return "current"
	}
	return ""
}

type keyList struct {
	config.Storage

	Institution string `help:"Slug of the institution." placeholder:"SLUG" required:""`
}

// Run lists the certificates of the institution's signing keys.
func (k *keyList) Run(c *console) error {
	return c.institution(k.Storage, k.Institution, func(base *app.Base, inst *account.Institution) error {
		return c.printKeys(base, inst)
	})
}

func (c *console) printKeys(base *app.Base, inst *account.Institution) error {
	list, err := base.Keys.Certificates(c.ctx, inst.UUID)
	if err != nil {
		return err
	}
	rows := make([]keyRow, len(list))
	for i, k := range list {
		rows[i] = newKeyRow(i, k.Kind, k.Chain[0])
	}
	return c.print(rows, func(w io.Writer) { keyTable(w, rows) })
}

type keyRotate struct {
	config.Storage

	Institution string `help:"Slug of the institution." placeholder:"SLUG" required:""`
}

// Run creates a new signing key, unless CheckKeyName rejects the name of the institution.
func (k *keyRotate) Run(c *console) error {
	return c.institution(k.Storage, k.Institution, func(base *app.Base, inst *account.Institution) error {
		if err := base.Accounts.CheckKeyName(c.ctx, inst.ID); err != nil {
			return err
		}
		if err := base.Keys.Rotate(c.ctx, inst.UUID, inst.Name, c.recordKey(inst, audit.KeyRotated)); err != nil {
			return err
		}
		return c.printKeys(base, inst)
	})
}

type keyImport struct {
	config.Storage

	Institution   string `help:"Slug of the institution." placeholder:"SLUG" required:""`
	PKCS12        string `help:"PKCS #12 file with the key and its certificates." name:"pkcs12" placeholder:"FILE" type:"path" xor:"form"`
	PasswordStdin bool   `help:"Read the password of the PKCS #12 file from standard input. Default: no password." and:"pkcs12"`
	Cert          string `help:"The key's certificate and the certificates of its issuers, PEM." placeholder:"FILE" type:"path" and:"pem"`
	Key           string `help:"The private key, PEM, not encrypted." placeholder:"FILE" type:"path" and:"pem" xor:"form"`
}

// Run imports the key with its certificates.
func (k *keyImport) Run(c *console) error {
	if k.PKCS12 == "" && k.Key == "" {
		return &usageError{errors.New("specify --pkcs12, or --cert and --key")}
	}
	return c.institution(k.Storage, k.Institution, func(base *app.Base, inst *account.Institution) error {
		if err := k.use(c, base.Keys, inst); err != nil {
			return err
		}
		return c.printKeys(base, inst)
	})
}

func (k *keyImport) use(c *console, keys *authority.Authority, inst *account.Institution) error {
	record := c.recordKey(inst, audit.KeyImported)
	if k.PKCS12 != "" {
		password := ""
		if k.PasswordStdin {
			var err error
			if password, err = readLine(c.stdin); err != nil {
				return err
			}
		}
		data, err := readKeyFile(k.PKCS12)
		if err != nil {
			return err
		}
		return keys.UsePKCS12(c.ctx, inst.UUID, data, password, record)
	}
	certificates, err := readKeyFile(k.Cert)
	if err != nil {
		return err
	}
	key, err := readKeyFile(k.Key)
	if err != nil {
		return err
	}
	return keys.UsePEM(c.ctx, inst.UUID, certificates, key, record)
}

// maxKeyFile is the maximum size of a file that readKeyFile reads, in bytes.
const maxKeyFile = 2 << 20

func readKeyFile(name string) (_ []byte, err error) {
	f, err := os.Open(name)
	if err != nil {
		return nil, fmt.Errorf("reading the key: %w", err)
	}
	defer func() { err = errors.Join(err, f.Close()) }()
	data, err := io.ReadAll(io.LimitReader(f, maxKeyFile+1))
	if err != nil {
		return nil, fmt.Errorf("reading the key: %w", err)
	}
	if len(data) > maxKeyFile {
		return nil, fmt.Errorf("reading the key: %s is larger than 2 MiB, so it is the wrong file", name)
	}
	return data, nil
}

type keyProgram struct {
	config.Storage

	Institution string   `help:"Slug of the institution." placeholder:"SLUG" required:""`
	Cert        string   `help:"The key's certificate and the certificates of its issuers, PEM." placeholder:"FILE" required:"" type:"path"`
	Command     []string `arg:"" help:"The full path of the program, and its arguments." passthrough:""`
}

// Run registers the program, if the program can create a valid test signature.
func (k *keyProgram) Run(c *console) error {
	command := k.Command
	if len(command) > 0 && command[0] == "--" {
		command = command[1:]
	}
	return c.institution(k.Storage, k.Institution, func(base *app.Base, inst *account.Institution) error {
		certificates, err := readKeyFile(k.Cert)
		if err != nil {
			return err
		}
		if err := base.Keys.UseProgram(c.ctx, inst.UUID, certificates, command, c.recordKey(inst, audit.KeyProgram)); err != nil {
			return err
		}
		return c.printKeys(base, inst)
	})
}

type keyRoot struct {
	config.Storage

	Rotate bool `help:"Create a new root. Keys that the old root issued remain in use until they are rotated."`
	PEM    bool `help:"Print the certificates as PEM." name:"pem"`

	NewIdentity bool `help:"With --rotate: replace a permanently lost identity. Old keys no longer sign; rotate the key of each institution afterwards." name:"new-identity"`
}

// Run prints the root certificates. With --rotate, Run first creates a new root.
func (k *keyRoot) Run(c *console) error {
	if k.NewIdentity && !k.Rotate {
		return &usageError{errors.New("--new-identity requires --rotate")}
	}
	return c.existing(k.Storage, func(base *app.Base) error {
		if k.NewIdentity {
			if err := base.Keys.ReplaceIdentity(c.ctx, c.recordKey(nil, audit.KeyIdentity)); err != nil {
				return err
			}
		}
		if k.Rotate {
			if err := base.RotateRoot(c.ctx, c.recordKey(nil, audit.KeyRootRotated)); err != nil {
				return err
			}
		}
		if k.PEM {
			text, err := base.Keys.RootsPEM(c.ctx)
			if err != nil {
				return err
			}
			return c.print(struct {
				PEM string `json:"pem"`
			}{string(text)}, func(w io.Writer) { _, _ = w.Write(text) })
		}
		roots, err := base.Keys.Roots(c.ctx)
		if err != nil {
			return err
		}
		rows := make([]keyRow, len(roots))
		for i, r := range roots {
			rows[i] = newKeyRow(i, authority.Issued, r)
		}
		return c.print(rows, func(w io.Writer) { keyTable(w, rows) })
	})
}

type keyProtect struct {
	config.Storage
}

// Run encrypts the identity with the passphrase.
func (k *keyProtect) Run(c *console) error {
	if k.KeyPassphraseFile == "" {
		return &usageError{errors.New("specify the passphrase with --key-passphrase-file")}
	}
	return c.existing(k.Storage, func(base *app.Base) error {
		if err := base.Keys.Protect(c.ctx); err != nil {
			return err
		}
		if err := base.DB.Tx(c.ctx, c.recordKey(nil, audit.KeyProtected)); err != nil {
			return fmt.Errorf("the identity was encrypted, but the audit log has no record of it: %w", err)
		}
		return c.print(struct {
			Protected bool `json:"protected"`
		}{true}, func(w io.Writer) {
			printf(w, "The identity of the signing keys is encrypted. From now on, start the server with the same --key-passphrase-file.\n")
		})
	})
}
