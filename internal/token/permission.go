package token

import (
	"slices"
	"strings"
)

// Permission is an operation that a token allows.
type Permission string

const (
	// VaultList lists vault certificates with filters and pages.
	VaultList Permission = "certificate-vault:list"
	// VaultView shows one vault certificate.
	VaultView Permission = "certificate-vault:view"
	// VaultCreate uploads certificates, singly and in bulk.
	VaultCreate Permission = "certificate-vault:create"
	// VaultDownload downloads verified PDFs.
	VaultDownload Permission = "certificate-vault:download"
	// VaultUpdate retries failed processing.
	VaultUpdate Permission = "certificate-vault:update"
	// VaultRevoke revokes certificates.
	VaultRevoke Permission = "certificate-vault:revoke"
	// TemplateList lists certificate templates.
	TemplateList Permission = "certificate-template:list"
	// BatchList lists batches.
	BatchList Permission = "batch:list"
	// BatchView shows one batch.
	BatchView Permission = "batch:view"
	// CertificateList lists certificates of every source.
	CertificateList Permission = "certificate:list"
	// CertificateView shows one certificate of any source.
	CertificateView Permission = "certificate:view"
	// CertificateDownload downloads the PDF of a certificate of any source.
	CertificateDownload Permission = "certificate:download"
)

// All lists every permission.
var All = []Permission{
	VaultList, VaultView, VaultCreate, VaultDownload, VaultUpdate, VaultRevoke,
	TemplateList, BatchList, BatchView, CertificateList, CertificateView, CertificateDownload,
}

// Valid reports whether the permission exists.
func (p Permission) Valid() bool { return slices.Contains(All, p) }

func join(permissions []Permission) string {
	var b strings.Builder
	for i, p := range permissions {
		if i > 0 {
			b.WriteByte(' ')
		}
		b.WriteString(string(p))
	}
	return b.String()
}
