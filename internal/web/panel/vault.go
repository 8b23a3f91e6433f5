package panel

import "github.com/certvault/certvault/internal/account"

// vaultRoutes returns the routes for the dashboard, the mail about certificates, the requests to correct
// certificates, and the settings.
func (p *Panel) vaultRoutes() []route {
	return []route{
		{pattern: "GET /panel/{institution}", handler: p.dashboard},

		{pattern: "POST /panel/{institution}/certificates/{certificate}/resend", may: account.MayRetry, handler: p.resend},
		{pattern: "GET /panel/{institution}/certificates/{certificate}/email", may: account.MayRetry, handler: p.addressForm, recent: true},
		{pattern: "POST /panel/{institution}/certificates/{certificate}/email", may: account.MayRetry, handler: p.correctAddress, recent: true},
		{pattern: "POST /panel/{institution}/certificates/{certificate}/corrections/{correction}/done", may: account.MayRetry, handler: p.settleCorrection},

		{pattern: "GET /panel/{institution}/settings", may: account.MayManageSettings, handler: p.settings},
		{pattern: "POST /panel/{institution}/settings", may: account.MayManageSettings, handler: p.setInstitution, limits: logoLimits},
		{pattern: "GET /panel/{institution}/settings/colour", may: account.MayManageSettings, handler: p.previewColour},
		{pattern: "GET /panel/{institution}/settings/public", may: account.MayManageSettings, handler: p.publicSettings},
		{pattern: "POST /panel/{institution}/settings/public", may: account.MayManageSettings, handler: p.setPublic},
		{pattern: "GET /panel/{institution}/settings/mail", may: account.MayManageSettings, handler: p.mailSettings},
		{pattern: "GET /panel/{institution}/settings/mail/preview", may: account.MayManageSettings, handler: p.mailPreview},
		{pattern: "POST /panel/{institution}/settings/mail", may: account.MayManageSettings, handler: p.setMailSender},
		{pattern: "POST /panel/{institution}/settings/mail/expiry", may: account.MayManageSettings, handler: p.setExpiry},
		{pattern: "POST /panel/{institution}/settings/mail/words", may: account.MayManageSettings, handler: p.setMailText},
		{pattern: "POST /panel/{institution}/settings/mail/test", may: account.MayManageSettings, handler: p.tryMailText},
		{pattern: "GET /panel/{institution}/settings/stamps", may: account.MayManageSettings, handler: p.stampSettings},
		{pattern: "GET /panel/{institution}/settings/stamps/page.png", may: account.MayManageSettings, handler: p.samplePicture},
		{pattern: "GET /panel/{institution}/settings/stamps/stamped.png", may: account.MayManageSettings, handler: p.sampleStamped},
		{pattern: "POST /panel/{institution}/settings/stamps/stamped.png", may: account.MayManageSettings, handler: p.sampleStamped},
		{pattern: "GET /panel/{institution}/settings/stamps/ink.png", may: account.MayManageSettings, handler: p.sampleInk},
		{pattern: "POST /panel/{institution}/settings/stamps", may: account.MayManageSettings, handler: p.setStamps},
		{pattern: "GET /panel/{institution}/settings/retention", may: account.MayManageSettings, handler: p.retentionPage},
		{pattern: "POST /panel/{institution}/settings/retention", may: account.MayManageSettings, handler: p.setRetention},
		{pattern: "GET /panel/{institution}/settings/keys", may: account.MayManageSettings, handler: p.keySettings},
		{pattern: "GET /panel/{institution}/settings/keys/rotate", may: account.MayManageKeys, handler: p.askRotateKey, recent: true},
		{pattern: "POST /panel/{institution}/settings/keys/rotate", may: account.MayManageKeys, handler: p.rotateKey, recent: true},
	}
}
