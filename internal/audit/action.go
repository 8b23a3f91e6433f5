package audit

import (
	"slices"
	"strings"
)

// Action is the name of an action: a noun, a dot and what was done. The noun is the group of the
// action in filters.
type Action string

// These constants are all recorded actions. Each action has an entry in Actions.
const (
	CertificateUploaded Action = "certificate.uploaded"
	CertificateRetried  Action = "certificate.retried"
	CertificateRevoked  Action = "certificate.revoked"
	CertificateExported Action = "certificate.exported"
	CertificateMailed   Action = "certificate.mailed"
	CertificateChecked  Action = "certificate.checked"
	CertificateAddress  Action = "certificate.address"
	CorrectionClosed    Action = "certificate.correction"
	CertificateExpired  Action = "certificate.ended"
	FilesExpired        Action = "certificate.files-ended"
	CertificateErased   Action = "certificate.erased"
	MailExpired         Action = "certificate.mail-ended"
	BatchAccepted       Action = "batch.accepted"

	TemplateCreated    Action = "template.created"
	TemplateImported   Action = "template.imported"
	TemplateDuplicated Action = "template.duplicated"
	TemplatePublished  Action = "template.published"
	TemplateArchived   Action = "template.archived"
	TemplateUnarchived Action = "template.restored"
	TemplateDeleted    Action = "template.deleted"
	FontAdded          Action = "font.added"
	FontDeleted        Action = "font.deleted"

	TokenCreated Action = "token.created"
	TokenRotated Action = "token.rotated"
	TokenRevoked Action = "token.revoked"

	WebhookCreated     Action = "webhook.created"
	WebhookChanged     Action = "webhook.changed"
	WebhookDeleted     Action = "webhook.deleted"
	WebhookTested      Action = "webhook.tested"
	WebhookPaused      Action = "webhook.paused"
	WebhookResumed     Action = "webhook.resumed"
	WebhookRotated     Action = "webhook.rotated"
	WebhookPromoted    Action = "webhook.promoted"
	WebhookRedelivered Action = "webhook.redelivered"
	WebhookReplayed    Action = "webhook.replayed"
	WebhookSwitchedOff Action = "webhook.switched-off"

	MemberAdded   Action = "member.added"
	MemberChanged Action = "member.changed"
	MemberRemoved Action = "member.removed"
	MemberLeft    Action = "member.left"

	InvitationSent     Action = "invitation.sent"
	InvitationResent   Action = "invitation.resent"
	InvitationRevoked  Action = "invitation.revoked"
	InvitationAccepted Action = "invitation.accepted"
	InvitationDeclined Action = "invitation.declined"

	SignedIn        Action = "session.started"
	SignedOut       Action = "session.ended"
	SignInFailed    Action = "session.refused"
	SecurityChanged Action = "session.security"

	InstitutionCreated Action = "institution.created"
	InstitutionChanged Action = "institution.changed"
	LogoChanged        Action = "institution.logo"
	MailTextChanged    Action = "institution.words"
	MailTested         Action = "institution.mail"

	KeyCreated     Action = "key.made"
	KeyRotated     Action = "key.rotated"
	KeyImported    Action = "key.imported"
	KeyProgram     Action = "key.program"
	KeyRootRotated Action = "key.root-rotated"
	KeyProtected   Action = "key.protected"
	KeySheet       Action = "key.sheet"
	KeyIdentity    Action = "key.identity-replaced"

	OperatorAdded   Action = "operator.added"
	OperatorRemoved Action = "operator.removed"

	AuditExported Action = "audit.exported"

	VaultRestored   Action = "vault.restored"
	RestoreAccepted Action = "vault.accepted"
)

// Actions lists all actions with their phrases. A phrase follows the name of the actor.
var Actions = []struct {
	Action Action
	Phrase string
}{
	{CertificateUploaded, "uploaded a certificate"},
	{CertificateRetried, "retried a certificate"},
	{CertificateRevoked, "revoked a certificate"},
	{CertificateExported, "exported certificates"},
	{CertificateChecked, "checked the stored files of a certificate"},
	{CertificateMailed, "sent the mail of a certificate again"},
	{CertificateAddress, "corrected the address of a certificate"},
	{CorrectionClosed, "closed a request to correct a certificate"},
	{CertificateExpired, "removed a failed certificate after its retention period"},
	{FilesExpired, "removed the files of a revoked certificate after their retention period"},
	{CertificateErased, "erased the files of a certificate"},
	{MailExpired, "removed names and addresses of old mail and events"},
	{BatchAccepted, "uploaded a batch"},
	{TemplateCreated, "created a template"},
	{TemplateImported, "imported a template"},
	{TemplateDuplicated, "duplicated a template"},
	{TemplatePublished, "published a template"},
	{TemplateArchived, "archived a template"},
	{TemplateUnarchived, "restored an archived template"},
	{TemplateDeleted, "deleted a template"},
	{FontAdded, "uploaded a font and confirmed that it may be used in documents"},
	{FontDeleted, "deleted a font"},
	{TokenCreated, "created an API token"},
	{TokenRotated, "rotated an API token"},
	{TokenRevoked, "revoked an API token"},
	{WebhookCreated, "created a webhook endpoint"},
	{WebhookChanged, "changed a webhook endpoint"},
	{WebhookDeleted, "deleted a webhook endpoint"},
	{WebhookTested, "tested a webhook endpoint"},
	{WebhookPaused, "paused a webhook endpoint"},
	{WebhookResumed, "resumed a webhook endpoint"},
	{WebhookRotated, "rotated a webhook secret"},
	{WebhookPromoted, "promoted a webhook secret"},
	{WebhookRedelivered, "sent a delivery again"},
	{WebhookReplayed, "replayed failed deliveries"},
	{WebhookSwitchedOff, "switched a webhook endpoint off"},
	{MemberAdded, "added a member"},
	{MemberChanged, "changed a member"},
	{MemberRemoved, "removed a member"},
	{MemberLeft, "left the institution"},
	{InvitationSent, "invited a person"},
	{InvitationResent, "sent an invitation again"},
	{InvitationRevoked, "withdrew an invitation"},
	{InvitationAccepted, "accepted an invitation"},
	{InvitationDeclined, "declined an invitation"},
	{SignedIn, "signed in"},
	{SignedOut, "signed out"},
	{SignInFailed, "failed to sign in"},
	{SecurityChanged, "changed the sign-in settings"},
	{InstitutionCreated, "created an institution"},
	{InstitutionChanged, "changed the settings"},
	{LogoChanged, "changed the logo"},
	{MailTextChanged, "changed the text of mail"},
	{MailTested, "sent a test mail"},
	{KeyCreated, "created a signing key"},
	{KeyRotated, "rotated the signing key"},
	{KeyImported, "imported a signing key"},
	{KeyProgram, "registered a program that signs"},
	{KeyRootRotated, "created a new root key"},
	{KeyProtected, "protected the signing keys"},
	{KeySheet, "printed the recovery sheet"},
	{KeyIdentity, "replaced the lost identity of the signing keys"},
	{OperatorAdded, "added an operator"},
	{OperatorRemoved, "removed an operator"},
	{AuditExported, "exported the audit log"},
	{VaultRestored, "restored the vault from a backup"},
	{RestoreAccepted, "accepted the restored vault"},
}

// Phrase returns the phrase of the action, which follows the name of the actor. The phrase of an
// action that is not in Actions is its name.
func (a Action) Phrase() string {
	for i := range Actions {
		if Actions[i].Action == a {
			return Actions[i].Phrase
		}
	}
	return string(a)
}

// Known reports whether the action is in Actions.
func (a Action) Known() bool {
	for i := range Actions {
		if Actions[i].Action == a {
			return true
		}
	}
	return false
}

// Groups returns the nouns of all actions. A filter accepts a noun as the group of all its actions.
func Groups() []string {
	var groups []string
	for i := range Actions {
		if g, _, _ := strings.Cut(string(Actions[i].Action), "."); !slices.Contains(groups, g) {
			groups = append(groups, g)
		}
	}
	return groups
}
