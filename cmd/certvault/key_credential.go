package main

import (
	"crypto/x509"
	"fmt"
	"io"
	"time"

	"github.com/certvault/certvault/internal/account"
	"github.com/certvault/certvault/internal/app"
	"github.com/certvault/certvault/internal/audit"
	"github.com/certvault/certvault/internal/authority"
	"github.com/certvault/certvault/internal/config"
)

type keyCredential struct {
	config.Storage

	Institution string `help:"Slug of the institution." placeholder:"SLUG" required:""`
	Rotate      bool   `help:"Create new keys. Existing credentials remain verifiable, because the former keys stay in the DID document."`
}

// credentialKeyRow is one row of the output: a key for credentials.
type credentialKeyRow struct {
	Current     bool                `json:"current"`
	Number      int                 `json:"number"`
	Algorithm   authority.Algorithm `json:"algorithm"`
	CreatedAt   time.Time           `json:"created_at"`
	Fingerprint string              `json:"fingerprint"`
}

// Run lists the keys with which the institution signs credentials. If there are none, or with
// --rotate, Run first creates new keys.
func (k *keyCredential) Run(c *console) error {
	return c.institution(k.Storage, k.Institution, func(base *app.Base, inst *account.Institution) error {
		created := c.recordKey(inst, audit.CredentialKeysCreated)
		if k.Rotate {
			if err := base.Keys.RotateCredentialKeys(c.ctx, inst.UUID, created, c.recordKey(inst, audit.CredentialKeysRotated)); err != nil {
				return err
			}
		}
		list, err := base.Keys.CredentialKeys(c.ctx, inst.UUID, created)
		if err != nil {
			return err
		}
		rows := make([]credentialKeyRow, len(list))
		for i, key := range list {
			public, err := x509.MarshalPKIXPublicKey(key.Public)
			if err != nil {
				return fmt.Errorf("encoding a key: %w", err)
			}
			rows[i] = credentialKeyRow{
				Current: key.Number == list[0].Number, Number: key.Number, Algorithm: key.Algorithm, CreatedAt: key.CreatedAt,
				Fingerprint: authority.Digest(public),
			}
		}
		return c.print(rows, func(w io.Writer) {
			table := newTable(w, "", "NUMBER", "ALGORITHM", "CREATED", "SHA-256")
			for _, r := range rows {
				table.row(currentMark(r.Current), r.Number, r.Algorithm, r.CreatedAt.Format(time.DateOnly), r.Fingerprint)
			}
			table.flush()
		})
	})
}
