package token

// Group is a set of related permissions with their descriptions.
type Group struct {
	Label       string
	Permissions []PermissionText
}

// PermissionText is a permission and a description of what it allows.
type PermissionText struct {
	Permission  Permission
	Description string
}

// Groups lists all permissions in the order of the form.
var Groups = []Group{
	{"The vault", []PermissionText{
		{VaultCreate, "Upload certificates, singly and in bulk"},
		{VaultList, "List and search certificates"},
		{VaultView, "See one certificate"},
		{VaultDownload, "Download verified PDFs"},
		{VaultUpdate, "Process failed certificates again"},
		{VaultRevoke, "Revoke certificates"},
	}},
	{"Batches and templates", []PermissionText{
		{BatchList, "List bulk uploads"},
		{BatchView, "See a bulk upload and its entries"},
		{TemplateList, "List templates, to test a connection"},
	}},
	{"Certificates of every source", []PermissionText{
		{CertificateList, "List certificates of every source"},
		{CertificateView, "See a certificate of any source"},
		{CertificateDownload, "Download the PDF of a certificate of any source"},
	}},
}

// Preset is a common set of permissions.
type Preset struct {
	Name, Label, Description string
	Permissions              []Permission
}

// Presets lists the common sets.
var Presets = []Preset{
	{"issuing", "Issuing", "A student system that uploads certificates and follows them.", []Permission{
		VaultCreate, VaultList, VaultView, VaultDownload, VaultUpdate, BatchList, BatchView, TemplateList,
	}},
	{"reading", "Reading", "A report or a website that only reads.", []Permission{
		VaultList, VaultView, VaultDownload, BatchList, BatchView, TemplateList, CertificateList, CertificateView, CertificateDownload,
	}},
	{"everything", "Everything", "All permissions, including revocation. For administration.", All},
}
