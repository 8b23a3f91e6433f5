package task

import (
	"archive/zip"
	"bytes"
	"context"
	"fmt"
	"strings"

	"github.com/certvault/certvault/internal/cert"
	"github.com/certvault/certvault/internal/fault"
	"github.com/certvault/certvault/internal/issuer"
	"github.com/certvault/certvault/internal/sheet"
)

// maxCredentials is the maximum number of certificates in an archive of credentials. A credential has
// about 4 KB, and is signed when it is first requested.
const maxCredentials = 1000

// credentialTable is the name of the table in an archive of credentials.
const credentialTable = "credentials.csv"

// Credentials returns a ZIP archive with a table of the selected certificates and their credentials in
// JSON-LD, and records the export in the audit log. The archive has credentials only of approved
// certificates. The error is fault.Invalid if the selection is not valid, has too many certificates, or has
// no approved certificate with a credential.
func (s *Service) Credentials(ctx context.Context, institutionID int64, selection Selection) ([]byte, error) {
	var list []*cert.Certificate
	some := false
	if err := s.walk(ctx, institutionID, selection, func(c *cert.Certificate) error {
		if list = append(list, c); len(list) > maxCredentials {
			return fault.New(fault.Invalid, "achievements.zip_many")
		}
		some = some || exportable(c)
		return nil
	}); err != nil {
		return nil, err
	}
	if !some {
		return nil, fault.New(fault.Invalid, "achievements.zip_none")
	}
	var out bytes.Buffer
	var table strings.Builder
	z, rows := zip.NewWriter(&out), sheet.NewWriter(&table)
	if err := rows.Write("File", "Reference id", "Full name", "Title", "Issue date", "Status", "Verification page", "Expires on"); err != nil {
		return nil, err
	}
	for _, c := range list {
		name := "(none: no valid credential)"
		if exportable(c) {
			text, err := s.issuer.File(ctx, c, issuer.FormatVC)
			if err != nil {
				return nil, err
			}
			name = strings.TrimSuffix(fileName(c), ".pdf") + ".json"
			if err := addText(z, name, text); err != nil {
				return nil, err
			}
		}
		if err := rows.Write(name, c.ReferenceID, c.FullName, c.Title, c.IssueDate, string(c.Status), s.verifyURL(c.ReferenceID), c.ExpiresOn); err != nil {
			return nil, err
		}
	}
	if err := rows.Flush(); err != nil {
		return nil, err
	}
	if err := addText(z, credentialTable, []byte(table.String())); err != nil {
		return nil, err
	}
	if err := z.Close(); err != nil {
		return nil, fmt.Errorf("writing an archive of credentials: %w", err)
	}
	return out.Bytes(), s.recordExport(ctx, institutionID, "credentials", selection)
}

// exportable reports whether a certificate is approved and has a credential.
func exportable(c *cert.Certificate) bool { return c.Status == cert.Approved && issuer.Has(c) }

func addText(z *zip.Writer, name string, text []byte) error {
	w, err := z.Create(name)
	if err == nil {
		_, err = w.Write(text)
	}
	if err != nil {
		return fmt.Errorf("writing an archive of credentials: %w", err)
	}
	return nil
}
