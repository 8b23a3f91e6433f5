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
	CertificatePlanned  Action = "certificate.mail-time"
	CorrectionClosed    Action = "certificate.correction"
	CertificateExpired  Action = "certificate.ended"
	FilesExpired        Action = "certificate.files-ended"
	CertificateErased   Action = "certificate.erased"
	MailExpired         Action = "certificate.mail-ended"
	CertificateSigned   Action = "certificate.signed"
	CertificateDeclined Action = "certificate.declined"
	CertificateReplaced Action = "certificate.replaced"
	BatchAccepted       Action = "batch.accepted"
	BatchSigned         Action = "batch.signed"
	BatchPlanned        Action = "batch.mail-time"

	TemplateCreated    Action = "template.created"
	TemplateImported   Action = "template.imported"
	TemplateDuplicated Action = "template.duplicated"
	TemplatePublished  Action = "template.published"
	TemplateArchived   Action = "template.archived"
	TemplateUnarchived Action = "template.restored"
	TemplateDeleted    Action = "template.deleted"
	SignatoryReplaced  Action = "template.signatory-replaced"
	SignatureChanged   Action = "template.signature-picture"
	FontAdded          Action = "font.added"
	FontDeleted        Action = "font.deleted"

	OfferCreated Action = "offer.created"
	OfferChanged Action = "offer.changed"
	OfferOpened  Action = "offer.opened"
	OfferClosed  Action = "offer.closed"
	OfferDrafted Action = "offer.drafted"
	OfferDeleted Action = "offer.deleted"
	RegisterSet  Action = "offer.register"

	ApplicationSubmitted Action = "application.submitted"
	ApplicationClaimed   Action = "application.claimed"
	ApplicationHeld      Action = "application.held"
	ApplicationAnswered  Action = "application.answered"
	ApplicationReleased  Action = "application.released"
	ApplicationApproved  Action = "application.approved"
	ApplicationRejected  Action = "application.rejected"
	ApplicationWithdrawn Action = "application.withdrawn"
	ApplicationExpired   Action = "application.expired"
	ApplicationNoted     Action = "application.noted"
	ApplicationPurged    Action = "application.purged"

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
	// InstitutionDisabled, InstitutionEnabled, InstitutionLimited and InstitutionMoved are actions
	// of operators.
	InstitutionDisabled Action = "institution.disabled"
	InstitutionEnabled  Action = "institution.enabled"
	InstitutionLimited  Action = "institution.limits"
	InstitutionMoved    Action = "institution.slug"

	KeyCreated     Action = "key.made"
	KeyRotated     Action = "key.rotated"
	KeyImported    Action = "key.imported"
	KeyProgram     Action = "key.program"
	KeyRootRotated Action = "key.root-rotated"
	KeyProtected   Action = "key.protected"
	KeySheet       Action = "key.sheet"
	KeyIdentity    Action = "key.identity-replaced"
	// CredentialKeysCreated and CredentialKeysRotated are about the keys that sign credentials.
	CredentialKeysCreated Action = "key.credential-made"    //nolint:gosec // the name of an action
	CredentialKeysRotated Action = "key.credential-rotated" //nolint:gosec // the name of an action

	// CredentialRevoked is about a credential whose certificate is not in the vault.
	CredentialRevoked Action = "credential.revoked" //nolint:gosec // the name of an action

	AchievementCreated Action = "achievement.created"
	AchievementChanged Action = "achievement.changed"
	AchievementDeleted Action = "achievement.deleted"

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
	{CertificatePlanned, "changed the time of the mail about a certificate"},
	{CertificateAddress, "corrected the address of a certificate"},
	{CorrectionClosed, "closed a request to correct a certificate"},
	{CertificateExpired, "deleted a failed certificate after its retention period"},
	{FilesExpired, "deleted the files of a revoked certificate after their retention period"},
	{CertificateErased, "erased the files of a certificate"},
	{MailExpired, "deleted names and addresses in old mail and events"},
	{CertificateSigned, "approved a certificate as a signatory"},
	{CertificateDeclined, "declined a certificate as a signatory"},
	{CertificateReplaced, "replaced a certificate"},
	{BatchAccepted, "submitted a batch"},
	{BatchSigned, "approved certificates of a batch as a signatory"},
	{BatchPlanned, "changed the time of the mail about a batch"},
	{TemplateCreated, "created a template"},
	{TemplateImported, "imported a template"},
	{TemplateDuplicated, "duplicated a template"},
	{TemplatePublished, "published a template"},
	{TemplateArchived, "archived a template"},
	{TemplateUnarchived, "restored an archived template"},
	{TemplateDeleted, "deleted a template"},
	{SignatoryReplaced, "named a replacement for a signatory"},
	{SignatureChanged, "changed the picture of the signature"},
	{FontAdded, "uploaded a font and confirmed that it may be used in documents"},
	{FontDeleted, "deleted a font"},
	{OfferCreated, "created an offer"},
	{OfferChanged, "changed an offer"},
	{OfferOpened, "opened an offer for applications"},
	{OfferClosed, "closed an offer"},
	{OfferDrafted, "made an offer a draft again"},
	{OfferDeleted, "deleted an offer"},
	{RegisterSet, "changed the register of an offer"},
	{ApplicationSubmitted, "submitted an application"},
	{ApplicationClaimed, "claimed an application"},
	{ApplicationHeld, "put an application on hold"},
	{ApplicationAnswered, "answered a question about an application"},
	{ApplicationReleased, "ended the hold of an application"},
	{ApplicationApproved, "approved an application"},
	{ApplicationRejected, "rejected an application"},
	{ApplicationWithdrawn, "withdrew an application"},
	{ApplicationExpired, "ended an application, because the applicant did not answer in time"},
	{ApplicationNoted, "changed the note of an application"},
	{ApplicationPurged, "deleted the data of an application after its retention period"},
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
	{WebhookReplayed, "resent failed deliveries"},
	{WebhookSwitchedOff, "paused a webhook endpoint after errors"},
	{MemberAdded, "added a member"},
	{MemberChanged, "changed a member"},
	{MemberRemoved, "removed a member"},
	{MemberLeft, "left the institution"},
	{InvitationSent, "invited a person"},
	{InvitationResent, "sent an invitation again"},
	{InvitationRevoked, "canceled an invitation"},
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
	{InstitutionDisabled, "disabled the institution"},
	{InstitutionEnabled, "enabled the institution"},
	{InstitutionLimited, "changed the limits of the institution"},
	{InstitutionMoved, "changed the institution's name in web addresses"},
	{KeyCreated, "created a signing key"},
	{KeyRotated, "rotated the signing key"},
	{KeyImported, "imported a signing key"},
	{KeyProgram, "registered a signing program"},
	{KeyRootRotated, "created a new root key"},
	{KeyProtected, "protected the signing keys"},
	{KeySheet, "printed the recovery sheet"},
	{KeyIdentity, "replaced the lost identity of the signing keys"},
	{CredentialKeysCreated, "created keys for credentials"},
	{CredentialKeysRotated, "rotated the keys for credentials"},
	{CredentialRevoked, "revoked a credential of a lost certificate"},
	{AchievementCreated, "created an achievement"},
	{AchievementChanged, "changed an achievement"},
	{AchievementDeleted, "deleted an achievement"},
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
