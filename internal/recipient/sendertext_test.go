package recipient

import (
	"strings"
	"testing"
	"time"

	"github.com/certvault/certvault/internal/account"
	"github.com/certvault/certvault/internal/locale"
	"github.com/certvault/certvault/internal/mail"
)

func textDraft(t *testing.T, tag string, texts map[string]account.MailText) *draft {
	t.Helper()
	catalog, err := locale.Load()
	if err != nil {
		t.Fatal(err)
	}
	l, ok := catalog.Get(tag)
	if !ok {
		t.Fatalf("the catalog has no language %s", tag)
	}
	return &draft{
		institution: "Northern & Western University", language: l, fallback: "en", url: "https://vault.example/c/SECRET", unsubscribe: "https://vault.example/unsubscribe/OTHER",
		items: []item{{title: "BSc <Physics>", name: "Ada Obi", email: "ada@example.org"}}, texts: texts,
		sender: account.MailSender{Sender: "Registrar's Office", ReplyTo: "registry@exämple.org"},
	}
}

// TestSenderTexts checks that the mail has the institution's texts, sender name and reply address, but
// is sent from the vault's address.
func TestSenderTexts(t *testing.T) {
	t.Parallel()
	texts := map[string]account.MailText{
		"en": {Paragraph: "Dear {name},\nyour {title} of {institution} <b>is ready</b>: https://example.org/?a=1&b=2", Closing: "Registrar's Office\n+49 30 1234"},
		"ar": {Closing: "مكتب التسجيل"},
	}
	d := textDraft(t, "en", texts)
	m, err := d.message()
	if err != nil {
		t.Fatal(err)
	}
	header, parts, _ := delivered(t, m)
	for kind, want := range map[string][]string{
		"text/plain": {"Dear Ada Obi,\r\nyour BSc <Physics> of Northern & Western University <b>is ready</b>: https://example.org/?a=1&b=2", "Registrar's Office\r\n+49 30 1234"},
		"text/html": {"Dear Ada Obi,<br>", "your BSc &lt;Physics&gt; of Northern &amp; Western University &lt;b&gt;is ready&lt;/b&gt;: https://example.org/?a=1&amp;b=2",
			"Registrar&#39;s Office<br>", `dir="auto" lang="en"`},
	} {
		for _, s := range want {
			if !strings.Contains(parts[kind], s) && !strings.Contains(parts[kind], strings.ReplaceAll(s, "\r\n", "\n")) {
				t.Errorf("the part %s does not contain %q: %s", kind, s, parts[kind])
			}
		}
	}
	// The mail has only the links of the vault: a URL in the texts is not converted to a link.
	if n := strings.Count(parts["text/html"], "<a "); n != 3 {
		t.Errorf("the mail has %d links, want 3", n)
	}
	from, err := header.AddressList("From")
	if err != nil || len(from) != 1 || from[0].Name != "Registrar's Office" || from[0].Address != "no-reply@vault.example" {
		t.Errorf("the sender is %v, want Registrar's Office with the vault's address; error %v", from, err)
	}
	reply, err := header.AddressList("Reply-To")
	if err != nil || len(reply) != 1 || reply[0].Address != "registry@xn--exmple-cua.org" {
		t.Errorf("the address for replies is %v, want registry@xn--exmple-cua.org; error %v", reply, err)
	}

	// If there are several certificates, the placeholders have the data of the first certificate.
	d.items = append(d.items, d.items[0], d.items[0])
	if m, err = d.message(); err != nil || !strings.Contains(m.Text, "your BSc <Physics> and 2 more of Northern") {
		t.Errorf("the text is %s, want the first title and 2 more; error %v", m.Text, err)
	}

	// The mail uses the texts of its language. If there are none, it uses the texts of the fallback
	// language.
	if m, err = textDraft(t, "ar", texts).message(); err != nil || !strings.Contains(m.HTML, `<p dir="auto" lang="ar"`) || strings.Contains(m.Text, "Dear") {
		t.Errorf("the text is %s, want the Arabic closing only; error %v", m.Text, err)
	}
	if m, err = textDraft(t, "de", texts).message(); err != nil || !strings.Contains(m.HTML, `<p dir="auto" lang="en"`) || !strings.Contains(m.Text, "Dear Ada Obi") {
		t.Errorf("the text is %s, want the English texts; error %v", m.Text, err)
	}
	if m, err = textDraft(t, "de", nil).message(); err != nil || strings.Contains(m.HTML, `dir="auto" lang=`) {
		t.Errorf("the text is %s, want no text of the institution; error %v", m.Text, err)
	}
}

// TestSizedTitles checks the length of titles in the list of a mail.
func TestSizedTitles(t *testing.T) {
	t.Parallel()
	for maxTitle, want := range map[int]int{50: 50, titleInText: titleInList} {
		d := textDraft(t, "en", nil)
		d.items[0].title = strings.Repeat("x", 100)
		d.items = append(d.items, d.items[0])
		m, err := d.sized(1, maxTitle)
		longest := 0
		for run := range strings.FieldsFuncSeq(m.Text, func(r rune) bool { return r != 'x' }) {
			longest = max(longest, len(run)+1) // with the ellipsis
		}
		if err != nil || longest != want {
			t.Errorf("with titles of at most %d characters, a title in the list has %d characters, want %d; error %v", maxTitle, longest, want, err)
		}
	}
}

// TestSenderIsOneHeader checks that the name of a sender cannot add a header or change the address.
func TestSenderIsOneHeader(t *testing.T) {
	t.Parallel()
	for _, text := range hostile {
		d := textDraft(t, "en", nil)
		d.sender = account.MailSender{Sender: text}
		m, err := d.message()
		if err != nil {
			t.Fatal(err)
		}
		header, _, _ := delivered(t, m)
		from, err := header.AddressList("From")
		if err != nil || len(from) != 1 || from[0].Address != "no-reply@vault.example" || header.Has("Bcc") {
			t.Errorf("sender %q: From = %v, want only the vault's address, and no Bcc; error %v", text, from, err)
		}
	}
}

func TestSample(t *testing.T) {
	t.Parallel()
	catalog, err := locale.Load()
	if err != nil {
		t.Fatal(err)
	}
	s := &Service{catalog: catalog, to: func(path string) string { return "https://vault.example" + path }, now: time.Now}
	d := draft{institution: "NWU", fallback: "en", texts: map[string]account.MailText{"en": {Paragraph: "Dear {name}"}}}
	m, err := s.sample(&d, Approval, "en", mail.Address{Name: "Regina", Email: "r@example.org"})
	if m.Sender != "NWU" {
		t.Errorf("the sender is %q, want NWU", m.Sender)
	}
	if err != nil || !strings.Contains(m.Text, "Dear Regina") || m.Unsubscribe != "" || strings.Contains(m.Text, "/c/") || strings.Contains(m.Text, "unsubscribe") {
		t.Errorf("the text is %s, want the name Regina and no link of a recipient; error %v", m.Text, err)
	}
	if _, err := s.sample(&d, Approval, "tlh", mail.Address{}); err == nil {
		t.Error("sample in an unsupported language: error = nil, want an error")
	}
}
