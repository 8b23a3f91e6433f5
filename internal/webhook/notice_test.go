package webhook_test

import (
	"strings"
	"testing"
	"time"

	"github.com/certvault/certvault/internal/locale"
	"github.com/certvault/certvault/internal/webhook"
)

// TestLetter checks the mail about an endpoint in every language. The mail links to the page of the
// endpoint, and does not contain the path of the endpoint's URL.
func TestLetter(t *testing.T) {
	t.Parallel()
	catalog, err := locale.Load()
	if err != nil {
		t.Fatal(err)
	}
	notices := []webhook.Notice{
		{Kind: webhook.NoticeFailing}, {Kind: webhook.NoticeStillFailing}, {Kind: webhook.NoticeRecovered},
		{Kind: webhook.NoticeSwitchedOff, Reason: webhook.ReasonFailing}, {Kind: webhook.NoticeSwitchedOff, Reason: webhook.ReasonGone},
	}
	const link = "https://vault.example/panel/nwu/webhooks/e"
	seen := map[string]string{}
	for _, l := range catalog.Languages() {
		for _, n := range notices {
			n.Endpoint, n.URL, n.Since = "e-uuid", "https://hooks.example:8443/secret", time.Date(2026, 3, 4, 5, 6, 0, 0, time.UTC)
			letter, subject, err := n.Letter(l, "Northern University", link)
			if err != nil {
				t.Fatal(err)
			}
			text := strings.Join(append(letter.Paragraphs, letter.Heading, letter.Why), "\n")
			if letter.Language != l.Tag || letter.Direction != l.Direction || letter.Button.URL != link || strings.Contains(text, "secret") {
				t.Errorf("%s, %s: letter = %+v, want the link to the endpoint's page and no path of its URL", l.Tag, n.Kind, letter)
			}
			for _, want := range []string{"hooks.example:8443", "Northern University", "e-uuid"} {
				if !strings.Contains(text, want) {
					t.Errorf("%s, %s: the letter does not contain %s: %s", l.Tag, n.Kind, want, text)
				}
			}
			if gone := n.Reason == webhook.ReasonGone; strings.Contains(text, "410 Gone") != gone || strings.Contains(text, l.Time(n.Since)) == gone {
				t.Errorf("%s, %s, %s: want \"410 Gone\" for the reason gone, and the time Since otherwise: %s", l.Tag, n.Kind, n.Reason, text)
			}
			if other := seen[text]; other != "" || subject != letter.Heading {
				t.Errorf("%s, %s: the letter has the same text as that of %q, or its subject %q is not its heading", l.Tag, n.Kind, other, subject)
			}
			seen[text] = l.Tag + " " + string(n.Kind)
		}
	}
}
