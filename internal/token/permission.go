package token

import (
	"slices"
	"strings"
)

// Permission is an operation that a token allows.
type Permission string

const (
	// VaultList allows listing vault certificates: those with the source cert.Vault.
	VaultList Permission = "certificate-vault:list"
	// VaultView allows reading one vault certificate.
	VaultView Permission = "certificate-vault:view"
	// VaultCreate allows uploading certificates, singly and in bulk.
	VaultCreate Permission = "certificate-vault:create"
	// VaultDownload allows downloading verified PDFs and credentials.
	VaultDownload Permission = "certificate-vault:download"
	// VaultUpdate allows retrying failed certificates.
	VaultUpdate Permission = "certificate-vault:update"
	// VaultRevoke allows revoking certificates and, together with VaultCreate, replacing them.
	VaultRevoke Permission = "certificate-vault:revoke"
	// TemplateList allows listing certificate templates.
	TemplateList Permission = "certificate-template:list"
	// TemplateIssue allows issuing certificates from templates.
	TemplateIssue Permission = "certificate-template:issue"
	// BatchList allows listing batches.
	BatchList Permission = "batch:list"
	// BatchView allows reading one batch.
	BatchView Permission = "batch:view"
	// CertificateList allows listing certificates of every source.
	CertificateList Permission = "certificate:list"
	// CertificateView allows reading one certificate of any source.
	CertificateView Permission = "certificate:view"
	// CertificateDownload allows downloading the PDF and the credential of a certificate of any source.
	CertificateDownload Permission = "certificate:download"
	// OfferList allows listing offers.
	OfferList Permission = "certificate-offer:list"
	// OfferView allows reading one offer.
	OfferView Permission = "certificate-offer:view"
	// ApplicationList allows listing applications.
	ApplicationList Permission = "certificate-application:list"
	// ApplicationView allows reading one application and its files.
	ApplicationView Permission = "certificate-application:view"
	// ApplicationCreate allows submitting applications.
	ApplicationCreate Permission = "certificate-application:create"
	// ApplicationReview allows all steps of a review: claim, hold, release, approve, reject and withdraw.
	ApplicationReview Permission = "certificate-application:review"
)

// All has every permission.
var All = []Permission{
	VaultList, VaultView, VaultCreate, VaultDownload, VaultUpdate, VaultRevoke,
	TemplateList, TemplateIssue, BatchList, BatchView, CertificateList, CertificateView, CertificateDownload,
	OfferList, OfferView, ApplicationList, ApplicationView, ApplicationCreate, ApplicationReview,
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
