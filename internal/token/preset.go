package token

// Group is permissions that belong together, each with what it opens.
type Group struct {
	Label       string
	Permissions []Described
}

// Described is a permission with what it opens, in words.
type Described struct {
	Permission Permission
	Says       string
}

// Groups are all permissions, in the order in which people are asked for them.
var Groups = []Group{
	{"The vault", []Described{
		{VaultCreate, "Upload certificates, singly and in bulk"},
		{VaultList, "List and search certificates"},
		{VaultView, "See one certificate"},
		{VaultDownload, "Download verified PDFs"},
		{VaultUpdate, "Have failed certificates processed again"},
		{VaultRevoke, "Revoke certificates"},
	}},
	{"Batches and templates", []Described{
		{BatchList, "List bulk uploads"},
		{BatchView, "See a bulk upload and its entries"},
		{TemplateList, "List templates, to test a connection"},
	}},
	{"Certificates of every source", []Described{
		{CertificateList, "List certificates of every source"},
		{CertificateView, "See a certificate of any source"},
		{CertificateDownload, "Download the PDF of a certificate of any source"},
	}},
}

// Preset is a set of permissions that is often wanted.
type Preset struct {
	Name, Label, Says string
	Permissions       []Permission
}

// Presets are the usual sets.
var Presets = []Preset{
	{"issuing", "Issuing", "A student system that uploads certificates and follows them.", []Permission{
		VaultCreate, VaultList, VaultView, VaultDownload, VaultUpdate, BatchList, BatchView, TemplateList,
	}},
	{"reading", "Reading", "A report or website that only looks.", []Permission{
		VaultList, VaultView, VaultDownload, BatchList, BatchView, TemplateList, CertificateList, CertificateView, CertificateDownload,
	}},
	{"everything", "Everything", "All there is, revoking too. For administration.", All},
}
