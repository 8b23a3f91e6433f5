package panel

import (
	"fmt"
	"html/template"
	"time"
)

// notices maps the name of a notice, which a page shows after an action, to the key of its message. The
// placeholders {1}, {2} and {3} of a message are the numbers of the notice.
var notices = map[string]string{ //nolint:gosec // the keys contain no tokens
	"nothing_selected": "list.nothing_selected",
	"nothing_applies":  "list.nothing_applies",
	"nothing_renews":   "list.nothing_renews",
	"nothing_failed":   "list.nothing_failed",
	"view_saved":       "list.view_saved",
	"view_deleted":     "list.view_deleted",
	"retried":          "certificate.notice_retried",
	"files_checked":    "certificate.notice_files_checked",
	"list_taken":       "bulk_notice.list_many",
	"list_one":         "bulk_notice.list_one",
	"both_taken":       "bulk_notice.both_many",
	"both_one":         "bulk_notice.both_one",
	"files_taken":      "bulk_notice.files",
	"columns_saved":    "bulk_notice.columns_saved",
	"row_saved":        "bulk_notice.row_saved",
	"row_saved_next":   "bulk_notice.row_saved_next",
	"row_skipped":      "bulk_notice.row_skipped",
	"row_skipped_next": "bulk_notice.row_skipped_next",
	"row_placed":       "bulk_notice.row_placed",
	"row_kept":         "bulk_notice.row_kept",
	"row_passed":       "bulk_notice.row_passed",
	"row_included":     "bulk_notice.row_included",
	"row_checked":      "bulk_notice.row_checked",
	"rows_saved":       "bulk_notice.rows_saved",
	"rows_saved_left":  "bulk_notice.rows_saved_left",
	"row_file_added":   "bulk_notice.row_file_added", "rows_accepted": "bulk_notice.accepted_many", "rows_accepted_one": "bulk_notice.accepted_one",
	"corrected_one":    "bulk_notice.corrected_one",
	"corrected_many":   "bulk_notice.corrected_many",
	"file_removed":     "bulk_notice.file_removed",
	"place_kept":       "bulk_notice.position_saved",
	"rows_skipped":     "bulk_notice.rows_skipped",
	"draft_discarded":  "bulk_notice.discarded",
	"submitted":        "bulk_notice.submitted",
	"begun_again":      "bulk_notice.again",
	"revoked":          "certificate.notice_revoked",
	"webhook_paused":   "webhooks.notice_paused",
	"webhook_resumed":  "webhooks.notice_resumed",
	"webhook_promoted": "webhooks.notice_promoted",
	"webhook_changed":  "webhooks.notice_changed",
	"webhook_deleted":  "webhooks.notice_deleted",
	"webhook_tested":   "webhooks.notice_tested",
	"webhook_replayed": "webhooks.notice_resent",
	"webhook_nothing":  "webhooks.notice_none_failed",
	"delivery_again":   "webhooks.notice_redelivered",

	"token_revoked": "tokens.notice_revoked",

	"template_created":         "templates.notice_created",
	"template_created_english": "templates.notice_created_english",
	"template_design_replaced": "templates.notice_design_replaced",
	"template_saved":           "templates.notice_saved",
	"template_published":       "templates.notice_published",
	"template_duplicated":      "templates.notice_duplicated",
	"template_archived":        "templates.notice_archived",
	"template_restored":        "templates.notice_restored",
	"template_deleted":         "templates.notice_deleted",
	"template_version":         "issue_list.notice_version",
	"template_draft_deleted":   "templates.notice_draft_deleted",
	"font_added":               "fonts.notice_added",
	"font_deleted":             "fonts.notice_deleted",

	"offer_created": "offers.notice_created",
	"offer_saved":   "offers.notice_saved",
	"offer_draft":   "offers.notice_draft",
	"offer_open":    "offers.notice_open",
	"offer_closed":  "offers.notice_closed",
	"offer_deleted": "offers.notice_deleted",
	"register_one":  "offers.notice_register_one", "register_many": "offers.notice_register_many", "register_deleted": "offers.notice_register_deleted",
	"no_application":       "applications.nothing_selected",
	"application_claimed":  "application.notice_claimed",
	"application_released": "application.notice_released",
	"application_noted":    "application.notice_noted",
	"application_approved": "application.notice_approved", "application_approved_next": "application.notice_approved_next",
	"application_held": "application.notice_held", "application_held_next": "application.notice_held_next",
	"application_rejected": "application.notice_rejected", "application_rejected_next": "application.notice_rejected_next",
	"application_withdrawn": "application.notice_withdrawn", "application_withdrawn_next": "application.notice_withdrawn_next",

	"approval_given":     "approvals.notice_approved",
	"approval_declined":  "approvals.notice_declined",
	"approval_nothing":   "approvals.notice_nothing",
	"signature_saved":    "approvals.notice_signature_saved",
	"signature_deleted":  "approvals.notice_signature_deleted",
	"signatories_saved":  "approvals.notice_signatories",
	"signatory_replaced": "approvals.notice_replaced",

	"correction_done": "certificate.notice_correction",

	"mail_moved": "notices.notice_changed", "mail_leaves": "notices.notice_sending", "mail_stopped": "notices.notice_stopped",

	"mailed_again":  "certificate.notice_mailed",
	"mailed_unsent": "mail_notice.mailed_unsent", "address_unsent": "mail_notice.address_unsent", "sample_unsent": "mail_notice.sample_unsent",
	"invited_unsent": "mail_notice.invited_unsent", "institution_unsent": "mail_notice.institution_unsent",
	"address_kept":  "certificate.notice_address",
	"settings_kept": "settings.notice_saved",
	"words_kept":    "value_notice.texts_saved",
	"sample_mailed": "mail_notice.sample_sent",
	"key_rotated":   "settings.notice_key",

	"achievement_saved": "achievements.notice_saved", "achievement_deleted": "achievements.notice_deleted",

	"member_changed":       "members.notice_changed",
	"member_removed":       "members.notice_removed",
	"member_left":          "panel_start.notice_left",
	"invited":              "members.notice_invited",
	"invitation_resent":    "members.notice_resent",
	"invitation_waits":     "members.notice_wait",
	"invitation_revoked":   "members.notice_cancelled",
	"joined":               "members.notice_joined",
	"set_up":               "setup.notice_done",
	"institution_named":    "operator.notice_named",
	"institution_disabled": "operator.notice_disabled",
	"institution_enabled":  "operator.notice_enabled",
	"institution_limited":  "operator.notice_limited",
	"institution_moved":    "operator.notice_moved",
	"institution_made":     "operator.notice_created",
}

// ago returns an HTML time element for value, which is a time.Time or a *time.Time. The text is the
// duration since or until value, or the time itself if it is recentTime or longer ago. The title is the
// exact time. ago returns "" for a nil pointer.
func (t texts) ago(now time.Time, value any) (template.HTML, error) {
	var at time.Time
	switch v := value.(type) {
	case time.Time:
		at = v
	case *time.Time:
		if v == nil {
			return "", nil
		}
		at = *v
	default:
		return "", fmt.Errorf("%T is not a time", value)
	}
	at = at.UTC()
	machine, title, kind := at.Format("2006-01-02T15:04:05Z"), t.language.Date(at)+at.Format(", 15:04:05 UTC"), "ago"
	var text string
	if passed := now.Sub(at); passed < recentTime {
		text = t.span(passed)
	} else {
		text, kind = t.language.Time(at), "exact"
	}
	return template.HTML(`<time datetime="` + machine + `" data-at="` + kind + `" title="` + template.HTMLEscapeString(title) + `">` + //nolint:gosec // the texts are escaped
		template.HTMLEscapeString(text) + `</time>`), nil
}

// exact returns an HTML time element like that of ago, but its text is always the time itself. It
// returns "" for nil.
func (t texts) exact(at *time.Time) (template.HTML, error) {
	if at == nil {
		return "", nil
	}
	return t.ago(at.Add(2*recentTime), *at)
}

// recentTime is the age from which a page shows the time of an event instead of how long ago it was.
const recentTime = 7 * 24 * time.Hour

// span formats the duration since a time. A negative duration means that the time is in the future.
func (t texts) span(d time.Duration) string {
	const day = 24 * time.Hour
	if d < 0 {
		return t.until(-d)
	}
	switch {
	case d < 10*time.Second:
		return t.of("ago.now")
	case d < time.Minute:
		return t.count("ago.seconds", int(d/time.Second))
	case d < time.Hour:
		return t.count("ago.minutes", int(d/time.Minute))
	case d < 2*day:
		return t.count("ago.hours", int(d/time.Hour))
	default:
		return t.count("ago.days", int(d/day))
	}
}

// until formats the duration until a time, rounded to the nearest day, hour or minute. One second after a
// period of a week has begun, the text is therefore still 7 days.
func (t texts) until(d time.Duration) string {
	const day = 24 * time.Hour
	unit := time.Minute
	switch {
	case d >= 2*day-time.Hour/2:
		unit = day
	case d >= time.Hour-time.Minute/2:
		unit = time.Hour
	}
	d += unit / 2
	switch {
	case d < time.Minute:
		return t.of("ago.soon")
	case d < time.Hour:
		return t.count("ago.in_minutes", int(d/time.Minute))
	case d < 2*day:
		return t.count("ago.in_hours", int(d/time.Hour))
	default:
		return t.count("ago.in_days", int(d/day))
	}
}
