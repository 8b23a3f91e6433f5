package panel

import (
	"fmt"
	"html/template"
	"strconv"
	"time"
)

// notices are what pages tell of a deed that was done.
var notices = map[string]string{ //nolint:gosec // what is said of tokens, not tokens
	"token_revoked": "The token was revoked. Nothing can use it any more.",
}

// plural writes a count with its noun.
func plural(n int, one, many string) string {
	if n == 1 {
		return "1 " + one
	}
	return strconv.Itoa(n) + " " + many
}

// ago writes how long ago a moment was, or how far ahead it is, with the moment
// itself to look at; of a nil pointer, nothing.
func (p *Panel) ago(at any) (template.HTML, error) {
	var t time.Time
	switch given := at.(type) {
	case time.Time:
		t = given
	case *time.Time:
		if given == nil {
			return "", nil
		}
		t = *given
	default:
		return "", fmt.Errorf("%T is no time", at)
	}
	t = t.UTC()
	text := span(p.Now().Sub(t))
	machine, shown := t.Format("2006-01-02T15:04:05Z"), t.Format("2 January 2006, 15:04:05 UTC")
	return template.HTML(`<time datetime="` + machine + `" title="` + shown + `">` + text + `</time>`), nil //nolint:gosec // times and words of ours
}

// span writes a duration as people say it, past or, when negative, to come.
func span(d time.Duration) string {
	form := "%s ago"
	if d < 0 {
		d, form = -d, "in %s"
	}
	const day = 24 * time.Hour
	switch {
	case d < 10*time.Second && form == "%s ago":
		return "just now"
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
