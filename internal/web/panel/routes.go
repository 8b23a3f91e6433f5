package panel

import (
	"cmp"
	"net/http"

	"github.com/certvault/certvault/internal/account"
	"github.com/certvault/certvault/internal/web/body"
)

// Handler handles a request that has passed the access checks of its route.
type Handler func(w http.ResponseWriter, r *http.Request, v *Visit) error

// scope is the audience of a route.
type scope int

const (
	// ofInstitution is for members of the institution in the path.
	ofInstitution scope = iota
	// ofPerson is for all signed-in people.
	ofPerson
	// ofOperator is for operators of the installation.
	ofOperator
	// ofEveryone is for all visitors. Handlers of such routes check access themselves.
	ofEveryone
)

// route is an entry of the table of routes.
type route struct {
	// pattern is the method and path. {institution} in the path is a slug.
	pattern string
	// may is the permission that a member needs for a route of an institution. If may is empty,
	// every member has access.
	may     account.Permission
	handler Handler
	// recent reports whether the route requires a recent sign-in. It is set for pages that show or
	// create secrets, change access, or change where data is sent. A handler calls afterRecentSignIn
	// if only some of its requests require a recent sign-in.
	recent bool
	scope  scope
	// hidden reports whether the route only redirects. The navigation does not show such a route.
	hidden bool
	// limits bounds a body that the handler reads, such as a multipart form. If limits is nil, the body is
	// a URL-encoded form, which is parsed before the handler is called.
	limits *body.Limits
	// form is the maximum size in bytes of a URL-encoded form. 0 means the constant maxForm.
	form int64
}

// maxForm returns the maximum size in bytes of a URL-encoded form.
func (rt *route) maxForm() int64 { return cmp.Or(rt.form, maxForm) }

// routes returns the routes of the start page, and of the pages for certificates, tasks, uploads, bulk
// uploads, batches, tokens, webhooks and deliveries.
func (p *Panel) routes() []route {
	return []route{
		{pattern: "GET /panel", handler: p.start, scope: ofPerson},

		{pattern: "GET /panel/{institution}/certificates", may: account.MayView, handler: p.certificates},
		{pattern: "GET /panel/{institution}/certificates/find", may: account.MayView, handler: p.find, hidden: true},
		{pattern: "POST /panel/{institution}/certificates/views", may: account.MayView, handler: p.saveView},
		{pattern: "POST /panel/{institution}/certificates/views/{view}/delete", may: account.MayView, handler: p.deleteView},
		{pattern: "POST /panel/{institution}/certificates/retry", may: account.MayRetry, handler: p.retryMany},
		{pattern: "POST /panel/{institution}/certificates/renew", may: account.MayUpload, handler: p.renewMany},
		{pattern: "POST /panel/{institution}/certificates/revoke", may: account.MayRevoke, handler: p.revokeMany},
		{pattern: "POST /panel/{institution}/certificates/csv", may: account.MayView, handler: p.exportCSV},
		{pattern: "POST /panel/{institution}/certificates/zip", may: account.MayView, handler: p.exportZIP},
		{pattern: "GET /panel/{institution}/tasks", may: account.MayView, handler: p.tasks},
		{pattern: "GET /panel/{institution}/tasks/{task}", may: account.MayView, handler: p.task},
		{pattern: "GET /panel/{institution}/tasks/{task}/events", may: account.MayView, handler: p.taskEvents},
		{pattern: "GET /panel/{institution}/tasks/{task}/results.csv", may: account.MayView, handler: p.taskCSV},
		{pattern: "GET /panel/{institution}/certificates/{certificate}", may: account.MayView, handler: p.certificate},
		{pattern: "GET /panel/{institution}/certificates/{certificate}/page.png", may: account.MayView, handler: p.certificateImage},
		{pattern: "GET /panel/{institution}/certificates/{certificate}/verified.pdf", may: account.MayView, handler: p.verifiedFile},
		{pattern: "GET /panel/{institution}/certificates/{certificate}/original", may: account.MayView, handler: p.originalFile},
		{pattern: "GET /panel/{institution}/certificates/{certificate}/events", may: account.MayView, handler: p.certificateEvents},
		{pattern: "POST /panel/{institution}/certificates/{certificate}/check", may: account.MayView, handler: p.checkFiles},
		{pattern: "POST /panel/{institution}/certificates/{certificate}/retry", may: account.MayRetry, handler: p.retryCertificate},
		{pattern: "GET /panel/{institution}/certificates/{certificate}/revoke", may: account.MayRevoke, handler: p.askRevokeCertificate},
		{pattern: "POST /panel/{institution}/certificates/{certificate}/revoke", may: account.MayRevoke, handler: p.revokeCertificate},
		{pattern: "GET /panel/{institution}/certificates/{certificate}/replace", may: account.MayUpload, handler: p.replaceCertificate},

		{pattern: "GET /panel/{institution}/upload", may: account.MayUpload, handler: p.newUpload},
		{pattern: "POST /panel/{institution}/upload", may: account.MayUpload, handler: p.stageUpload, limits: uploadLimits},
		{pattern: "GET /panel/{institution}/upload/{upload}", may: account.MayUpload, handler: p.upload},
		{pattern: "GET /panel/{institution}/upload/{upload}/page.png", may: account.MayUpload, handler: p.uploadPicture},
		{pattern: "GET /panel/{institution}/upload/{upload}/stamped.png", may: account.MayUpload, handler: p.uploadStamped},
		{pattern: "POST /panel/{institution}/upload/{upload}/stamped.png", may: account.MayUpload, handler: p.uploadStamped},
		{pattern: "GET /panel/{institution}/upload/{upload}/ink.png", may: account.MayUpload, handler: p.uploadInk},
		{pattern: "POST /panel/{institution}/upload/{upload}/name", may: account.MayUpload, handler: p.checkName},
		{pattern: "POST /panel/{institution}/upload/{upload}", may: account.MayUpload, handler: p.finishUpload},
		{pattern: "GET /panel/{institution}/certificates/{certificate}/uploaded", may: account.MayUpload, handler: p.uploadDone},

		{pattern: "GET /panel/{institution}/bulk", may: account.MayUpload, handler: p.bulk},
		{pattern: "POST /panel/{institution}/bulk", may: account.MayUpload, handler: p.newBulk},
		{pattern: "GET /panel/{institution}/bulk/template.xlsx", may: account.MayUpload, handler: p.templateWorkbook},
		{pattern: "GET /panel/{institution}/bulk/template.csv", may: account.MayUpload, handler: p.templateCSV},
		{pattern: "GET /panel/{institution}/bulk/{draft}", may: account.MayUpload, handler: p.draft},
		{pattern: "POST /panel/{institution}/bulk/{draft}/list", may: account.MayUpload, handler: p.uploadList, limits: bulkLimits},
		{pattern: "POST /panel/{institution}/bulk/{draft}/files", may: account.MayUpload, handler: p.uploadFiles, limits: bulkLimits},
		{pattern: "GET /panel/{institution}/bulk/{draft}/files", may: account.MayUpload, handler: p.draftFiles},
		{pattern: "POST /panel/{institution}/bulk/{draft}/files/remove", may: account.MayUpload, handler: p.removeFile},
		{pattern: "GET /panel/{institution}/bulk/{draft}/files/{file}/page.png", may: account.MayUpload, handler: p.draftPicture},
		{pattern: "GET /panel/{institution}/bulk/{draft}/files/{file}/stamped.png", may: account.MayUpload, handler: p.draftStamped},
		{pattern: "POST /panel/{institution}/bulk/{draft}/files/{file}/stamped.png", may: account.MayUpload, handler: p.draftStamped},
		{pattern: "GET /panel/{institution}/bulk/{draft}/files/{file}/ink.png", may: account.MayUpload, handler: p.draftInk},
		{pattern: "GET /panel/{institution}/bulk/{draft}/placement", may: account.MayUpload, handler: p.placement},
		{pattern: "POST /panel/{institution}/bulk/{draft}/placement", may: account.MayUpload, handler: p.setPlacement},
		{pattern: "GET /panel/{institution}/bulk/{draft}/columns", may: account.MayUpload, handler: p.columns},
		{pattern: "POST /panel/{institution}/bulk/{draft}/columns", may: account.MayUpload, handler: p.setColumns},
		{pattern: "GET /panel/{institution}/bulk/{draft}/rows", may: account.MayUpload, handler: p.rows},
		{pattern: "POST /panel/{institution}/bulk/{draft}/rows", may: account.MayUpload, handler: p.changeRows},
		{pattern: "GET /panel/{institution}/bulk/{draft}/rows/{row}", may: account.MayUpload, handler: p.row},
		{pattern: "POST /panel/{institution}/bulk/{draft}/rows/{row}", may: account.MayUpload, handler: p.fixRow},
		{pattern: "POST /panel/{institution}/bulk/{draft}/rows/{row}/file", may: account.MayUpload, handler: p.addRowFile, limits: uploadLimits},
		{pattern: "GET /panel/{institution}/bulk/{draft}/errors.csv", may: account.MayUpload, handler: p.errorsCSV},
		{pattern: "GET /panel/{institution}/bulk/{draft}/submit", may: account.MayUpload, handler: p.dryRun},
		{pattern: "POST /panel/{institution}/bulk/{draft}/submit", may: account.MayUpload, handler: p.submit},
		{pattern: "GET /panel/{institution}/bulk/{draft}/progress", may: account.MayView, handler: p.progress},
		{pattern: "GET /panel/{institution}/bulk/{draft}/events", may: account.MayView, handler: p.progressEvents},
		{pattern: "GET /panel/{institution}/bulk/{draft}/results.csv", may: account.MayView, handler: p.resultsCSV},
		{pattern: "POST /panel/{institution}/bulk/{draft}/retry", may: account.MayRetry, handler: p.retryDraft},
		{pattern: "POST /panel/{institution}/bulk/{draft}/again", may: account.MayUpload, handler: p.draftAgain},
		{pattern: "GET /panel/{institution}/bulk/{draft}/discard", may: account.MayUpload, handler: p.askDiscard},
		{pattern: "POST /panel/{institution}/bulk/{draft}/discard", may: account.MayUpload, handler: p.discard},
		{pattern: "GET /panel/{institution}/batches", may: account.MayView, handler: p.batches},

		{pattern: "GET /panel/{institution}/tokens", may: account.MayManageTokens, handler: p.tokens},
		{pattern: "POST /panel/{institution}/tokens", may: account.MayManageTokens, handler: p.createToken, recent: true},
		{pattern: "GET /panel/{institution}/tokens/new", may: account.MayManageTokens, handler: p.newToken, recent: true},
		{pattern: "GET /panel/{institution}/tokens/{token}/rotate", may: account.MayManageTokens, handler: p.askRotateToken, recent: true},
		{pattern: "POST /panel/{institution}/tokens/{token}/rotate", may: account.MayManageTokens, handler: p.rotateToken, recent: true},
		{pattern: "GET /panel/{institution}/tokens/{token}/revoke", may: account.MayManageTokens, handler: p.askRevokeToken},
		{pattern: "POST /panel/{institution}/tokens/{token}/revoke", may: account.MayManageTokens, handler: p.revokeToken},

		{pattern: "GET /panel/{institution}/webhooks", may: account.MayManageWebhooks, handler: p.webhooks},
		{pattern: "POST /panel/{institution}/webhooks", may: account.MayManageWebhooks, handler: p.createWebhook, recent: true},
		{pattern: "GET /panel/{institution}/webhooks/new", may: account.MayManageWebhooks, handler: p.newWebhook, recent: true},
		{pattern: "GET /panel/{institution}/webhooks/signatures", may: account.MayManageWebhooks, handler: p.signatures},
		{pattern: "GET /panel/{institution}/webhooks/{webhook}", may: account.MayManageWebhooks, handler: p.webhook},
		{pattern: "GET /panel/{institution}/webhooks/{webhook}/edit", may: account.MayManageWebhooks, handler: p.editWebhook, recent: true},
		{pattern: "POST /panel/{institution}/webhooks/{webhook}/edit", may: account.MayManageWebhooks, handler: p.updateWebhook, recent: true},
		{pattern: "GET /panel/{institution}/webhooks/{webhook}/rotate", may: account.MayManageWebhooks, handler: p.askRotateWebhook, recent: true},
		{pattern: "POST /panel/{institution}/webhooks/{webhook}/rotate", may: account.MayManageWebhooks, handler: p.rotateWebhook, recent: true},
		{pattern: "POST /panel/{institution}/webhooks/{webhook}/promote", may: account.MayManageWebhooks, handler: p.promoteWebhook},
		{pattern: "POST /panel/{institution}/webhooks/{webhook}/pause", may: account.MayManageWebhooks, handler: p.pauseWebhook},
		{pattern: "POST /panel/{institution}/webhooks/{webhook}/resume", may: account.MayManageWebhooks, handler: p.resumeWebhook},
		{pattern: "POST /panel/{institution}/webhooks/{webhook}/test", may: account.MayManageWebhooks, handler: p.testWebhook},
		{pattern: "POST /panel/{institution}/webhooks/{webhook}/replay", may: account.MayManageWebhooks, handler: p.replayWebhook},
		{pattern: "GET /panel/{institution}/webhooks/{webhook}/delete", may: account.MayManageWebhooks, handler: p.askDeleteWebhook},
		{pattern: "POST /panel/{institution}/webhooks/{webhook}/delete", may: account.MayManageWebhooks, handler: p.deleteWebhook},
		{pattern: "GET /panel/{institution}/deliveries", may: account.MayManageWebhooks, handler: p.deliveries},
		{pattern: "GET /panel/{institution}/deliveries/{delivery}", may: account.MayManageWebhooks, handler: p.delivery},
		{pattern: "POST /panel/{institution}/deliveries/{delivery}/redeliver", may: account.MayManageWebhooks, handler: p.redeliver},
	}
}
