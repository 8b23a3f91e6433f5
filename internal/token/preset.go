package token

// Group is a set of related permissions.
type Group struct {
	Name        string
	Permissions []Permission
}

// Groups has all permissions, in the order of the form for new tokens.
var Groups = []Group{
	{"vault", []Permission{VaultCreate, VaultList, VaultView, VaultDownload, VaultUpdate, VaultRevoke}},
	{"batches", []Permission{BatchList, BatchView, TemplateList, TemplateIssue}},
	{"certificates", []Permission{CertificateList, CertificateView, CertificateDownload}},
	{"applications", []Permission{OfferList, OfferView, ApplicationList, ApplicationView, ApplicationCreate, ApplicationReview}},
}

// Preset is a common set of permissions.
type Preset struct {
	Name        string
	Permissions []Permission
}

// Presets has the common sets of permissions.
var Presets = []Preset{
	// For a student system that uploads or issues certificates and reads their status.
	{"issuing", []Permission{VaultCreate, VaultList, VaultView, VaultDownload, VaultUpdate, BatchList, BatchView, TemplateList, TemplateIssue}},
	// For a report or a website that only reads. It cannot read applications, because few programs need
	// their answers and files.
	{"reading", []Permission{
		VaultList, VaultView, VaultDownload, BatchList, BatchView, TemplateList, CertificateList, CertificateView, CertificateDownload, OfferList, OfferView,
	}},
	// For a system that decides applications.
	{"reviewing", []Permission{
		OfferList, OfferView, ApplicationList, ApplicationView, ApplicationCreate, ApplicationReview, TemplateList, CertificateView, CertificateDownload,
	}},
	// For administration.
	{"everything", All},
}
