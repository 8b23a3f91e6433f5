package token

// Group is a set of related permissions.
type Group struct {
	Name        string
	Permissions []Permission
}

// Groups lists all permissions, in the order of the form in which tokens are created.
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

// Presets lists the common sets.
var Presets = []Preset{
	// A student system that uploads or issues certificates and reads their status.
	{"issuing", []Permission{VaultCreate, VaultList, VaultView, VaultDownload, VaultUpdate, BatchList, BatchView, TemplateList, TemplateIssue}},
	// A report or a website that only reads. Applications are not in it, because they have answers and
	// files that few programs need.
	{"reading", []Permission{
		VaultList, VaultView, VaultDownload, BatchList, BatchView, TemplateList, CertificateList, CertificateView, CertificateDownload, OfferList, OfferView,
	}},
	// A system that decides about applications.
	{"reviewing", []Permission{
		OfferList, OfferView, ApplicationList, ApplicationView, ApplicationCreate, ApplicationReview, TemplateList, CertificateView, CertificateDownload,
	}},
	// Administration.
	{"everything", All},
}
