package panel

import (
	"fmt"
	"html/template"
	"strconv"
	"time"
)

// notices are the messages that pages show after an action. {1}, {2} and {3} are the numbers of a
// notice.
var notices = map[string]string{ //nolint:gosec // the texts contain no tokens
	"nothing_selected": "list.nothing_selected",
	"nothing_applies":  "list.nothing_applies",
	"nothing_failed":   "list.nothing_failed",
	"view_saved":       "list.view_saved",
	"view_deleted":     "list.view_deleted",
	"retried":          "certificate.notice_retried",
	"files_checked":    "certificate.notice_files_checked",
	"uploaded":         "The certificate was uploaded. Its verified PDF is being made.",
	"list_taken":       "The list was read: {1} rows.",
	"list_one":         "The list was read: 1 row.",
	"both_taken":       "The list was read: {1} rows. The files were added.",
	"both_one":         "The list was read: 1 row. The files were added.",
	"files_taken":      "The files were added.",
	"columns_saved":    "The columns were saved and will be used for the next list with these columns.",
	"row_saved":        "Row {1} was saved. No row has a problem any more.",
	"row_saved_left":   "Row {1} was saved. Rows that still have a problem: {2}.",
	"row_saved_next":   "Row {1} was saved. The next row with a problem is row {2} ({3} left).",
	"row_skipped":      "Row {1} was skipped. No row has a problem any more.",
	"row_skipped_left": "Row {1} was skipped. Rows that still have a problem: {2}.",
	"row_skipped_next": "Row {1} was skipped. The next row with a problem is row {2} ({3} left).",
	"file_removed":     "The file was removed.",
	"place_kept":       "The placement was saved. It applies to all rows without a placement of their own.",
	"rows_skipped":     "The rows were skipped.",
	"draft_discarded":  "The bulk upload was discarded.",
	"submitted":        "The bulk upload was submitted.",
	"begun_again":      "Here are the rows that were rejected, or skipped because of a problem, with their files. Correct them and submit again.",
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

	"correction_done": "certificate.notice_correction",

	"mailed_again":  "certificate.notice_mailed",
	"mailed_unsent": "mail_notice.mailed_unsent", "address_unsent": "mail_notice.address_unsent", "sample_unsent": "mail_notice.sample_unsent",
	"invited_unsent": "mail_notice.invited_unsent", "institution_unsent": "mail_notice.institution_unsent",
	"address_kept":  "certificate.notice_address",
	"settings_kept": "settings.notice_saved",
	"words_kept":    "The texts were saved. Mail uses them from now on.",
	"sample_mailed": "mail_notice.sample_sent",
	"key_rotated":   "settings.notice_key",

	"member_changed":     "members.notice_changed",
	"member_removed":     "members.notice_removed",
	"member_left":        "panel_start.notice_left",
	"invited":            "members.notice_invited",
	"invitation_resent":  "members.notice_resent",
	"invitation_waits":   "members.notice_wait",
	"invitation_revoked": "members.notice_cancelled",
	"joined":             "members.notice_joined",
	"set_up":             "setup.notice_done",
	"institution_named":  "operator.notice_named",
	"institution_made":   "operator.notice_created",
}

// plural returns a number with its noun in the singular or plural.
func plural(n int, one, many string) string {
	if n == 1 {
		return "1 " + one
	}
	return strconv.Itoa(n) + " " + many
}

// ago returns an HTML time element with the time since or until at, and the exact time as its
// title. If it was more than a week ago, the text is the time itself. at is a time.Time or a
// *time.Time. ago returns "" for a nil pointer.
func (p *Panel) ago(at any) (template.HTML, error) {
	var t time.Time
	switch value := at.(type) {
	case time.Time:
		t = value
	case *time.Time:
		if value == nil {
			return "", nil
		}
		t = *value
	default:
		return "", fmt.Errorf("%T is not a time", at)
	}
	t = t.UTC()
	language := p.Site.Languages()[0]
	machine, title, kind := t.Format("2006-01-02T15:04:05Z"), language.Date(t)+t.Format(", 15:04:05 UTC"), "ago"
	var text string
	if passed := p.Now().Sub(t); passed < recentTime {
		text = span(passed)
	} else {
		text, kind = language.Time(t), "exact"
	}
	return template.HTML(`<time datetime="` + machine + `" data-at="` + kind + `" title="` + template.HTMLEscapeString(title) + `">` + //nolint:gosec // the texts are escaped
		template.HTMLEscapeString(text) + `</time>`), nil
}

// recentTime is the time for which a page shows how long ago something happened. After it, the page
// shows when it happened.
const recentTime = 7 * 24 * time.Hour

// date formats a date, YYYY-MM-DD. It returns any other text unchanged.
func (p *Panel) date(text string) string {
	at, err := time.Parse(time.DateOnly, text)
	if err != nil {
		return text
	}
	return p.Site.Languages()[0].Date(at)
}

// span formats the duration since a time. A negative duration is the time until a time in the
// future.
func span(d time.Duration) string {
	form := "%s ago"
	const day = 24 * time.Hour
	if d < 0 {
		// The time until a future time is rounded to the nearest unit. Therefore a period of a week
		// is still shown as 7 days one second later.
		d, form = -d, "in %s"
		switch {
		case d >= 2*day-time.Hour/2:
			d += day / 2
		case d >= time.Hour-time.Minute/2:
			d += time.Hour / 2
		default:
			d += time.Minute / 2
		}
	}
	switch {
	case d < 10*time.Second && form == "%s ago":
		return "just now"
	case d < time.Minute && form == "in %s":
		return "in less than a minute"
	case d < time.Minute:
		return fmt.Sprintf(form, plural(int(d/time.Second), "second", "seconds"))
	case d < time.Hour:
		return fmt.Sprintf(form, plural(int(d/time.Minute), "minute", "minutes"))
	case d < 2*day:
		return fmt.Sprintf(form, plural(int(d/time.Hour), "hour", "hours"))
	default:
		return fmt.Sprintf(form, plural(int(d/day), "day", "days"))
	}
}
