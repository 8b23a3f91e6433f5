package panel

import (
	"context"
	"encoding/json"
	"log/slog"
	"net/http"
	"net/url"
	"strings"
	"time"

	"github.com/certvault/certvault/internal/account"
	"github.com/certvault/certvault/internal/audit"
	"github.com/certvault/certvault/internal/db"
	"github.com/certvault/certvault/internal/fault"
	"github.com/certvault/certvault/internal/identity"
	"github.com/certvault/certvault/internal/limit"
	"github.com/certvault/certvault/internal/mail"
	"github.com/certvault/certvault/internal/web"
	"github.com/certvault/certvault/internal/web/page"
)

// testMailTime is the time limit for sending a test message.
const testMailTime = 20 * time.Second

// setupForm is the data of the set-up page.
type setupForm struct {
	Token                 string
	OwnerName, OwnerEmail string
	Name, Prefix          string
	// Outbox is the folder for mail if no mail server is configured, and empty otherwise.
	BaseURL, Outbox string
	// Elsewhere is the address at which the page was opened if the host of that address differs
	// from the host of BaseURL, and empty otherwise.
	Elsewhere string
	// Private reports whether only the vault's own machine or network can open BaseURL. TestVault
	// reports whether the person has confirmed that the vault is a test.
	Private, TestVault bool
	// Mail is the result of a test message, or nil if the vault did not try to send one.
	Mail *mailResult
}

// mailResult is the result of a test message to the address To.
type mailResult struct {
	To string
	// Tone is the CSS class of the message. Title is the key of the message, and text is the key of the
	// explanation, or empty. Problem is the error if the message could not be sent, and empty otherwise.
	Tone, Title, text, Problem string
}

// Text returns the explanation of the result, or Problem.
func (m *mailResult) Text(g *page.Page) (string, error) {
	if m.text == "" {
		return m.Problem, nil
	}
	return g.Message(m.text)
}

// checkSetup returns the form of a request with a valid set-up link, and page.ErrUnknown for other
// requests. Requests from other machines are allowed only if SetupRemote is set. checkSetup also
// limits the number of requests from an address.
func (p *Panel) checkSetup(w http.ResponseWriter, r *http.Request) (*setupForm, error) {
	w.Header().Set("Referrer-Policy", "no-referrer")
	if !p.SetupRemote && !web.Client(r).IsLoopback() {
		return nil, page.ErrUnknown
	}
	if err := web.Throttle(w, p.Limit, limit.AddressKey(web.Client(r))); err != nil {
		return nil, err
	}
	token := r.URL.Query().Get("token")
	if r.Method == http.MethodPost {
		token = r.PostFormValue("token")
	}
	works, err := p.Accounts.SetupLinkWorks(r.Context(), token)
	if err != nil {
		return nil, err
	}
	if !works {
		return nil, page.ErrUnknown
	}
	f := &setupForm{
		Token: token, OwnerName: r.PostFormValue("owner_name"), OwnerEmail: strings.TrimSpace(r.PostFormValue("owner_email")),
		Name: r.PostFormValue("name"), Prefix: r.PostFormValue("prefix"), BaseURL: p.BaseURL, Outbox: p.Outbox,
		Private: web.IsLocal(p.BaseURL), TestVault: r.PostFormValue("test_vault") != "",
	}
	if u, err := url.Parse(p.BaseURL); err == nil && !strings.EqualFold(u.Host, r.Host) {
		f.Elsewhere = "https://" + r.Host
	}
	return f, nil
}

// setup shows the page of the set-up link, which the server prints when it starts.
func (p *Panel) setup(w http.ResponseWriter, r *http.Request, _ *Visit) error {
	f, err := p.checkSetup(w, r)
	if err != nil {
		return err
	}
	return p.draw(w, r, "setup.html", f)
}

// trySetupMail sends a test message to the owner's address, and responds with the result as JSON or as a
// page. A browser opens the page in a new tab, because the set-up page contains the typed password, which
// the vault never writes to a page.
func (p *Panel) trySetupMail(w http.ResponseWriter, r *http.Request, _ *Visit) error {
	f, err := p.checkSetup(w, r)
	if err != nil {
		return err
	}
	email, err := account.ParseEmail(f.OwnerEmail)
	if err != nil {
		err = fault.OfField("owner_email", err.Error())
		if page.WantsJSON(r) {
			return err
		}
		return p.showAgain(w, r, "setup_mail.html", f, err)
	}
	t := p.texts(r)
	letter := mail.Letter{
		Heading: t.of("setup_mail.subject"), Paragraphs: []string{t.of("setup_mail.text", "address", p.BaseURL)}, Why: t.of("setup_mail.why"),
		Language: t.language.Tag, Direction: t.language.Direction,
	}
	m, err := letter.Message(mail.Address{Name: f.OwnerName, Email: email.Text}, t.of("setup_mail.subject"))
	if err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(r.Context(), testMailTime)
	defer cancel()
	f.Mail = &mailResult{To: email.Text, Tone: "good", Title: "setup.mail_sent", text: "setup.mail_sent_text"}
	if p.Outbox != "" {
		f.Mail.Tone, f.Mail.Title, f.Mail.text = "wait", "setup.mail_written", "setup.mail_written_text"
	}
	if err := p.SendTestMail(ctx, m); err != nil {
		// The person who sets up the vault needs the error to correct the configuration.
		f.Mail.Tone, f.Mail.Title, f.Mail.text, f.Mail.Problem = "bad", "setup.mail_failed", "", err.Error()
	}
	if page.WantsJSON(r) {
		return p.writeMailResult(w, r, f.Mail)
	}
	return p.draw(w, r, "setup_mail.html", f)
}

// writeMailResult responds with the result of a test message as JSON, for the script of the page.
func (p *Panel) writeMailResult(w http.ResponseWriter, r *http.Request, m *mailResult) error {
	g := p.view.Reader(r)
	title, err := g.Message(m.Title, "address", m.To)
	if err != nil {
		return err
	}
	text, err := m.Text(g)
	if err != nil {
		return err
	}
	w.Header().Set("Content-Type", "application/json")
	w.Header().Set("Cache-Control", "no-store")
	return json.NewEncoder(w).Encode(map[string]string{"tone": m.Tone, "title": title, "text": text})
}

var errTestVault = fault.OfField("test_vault", "setup.test_required")

// setUp creates the first institution with its signing key and owner, and signs the owner in. If the owner
// already had an account, setUp redirects to the sign-in instead.
func (p *Panel) setUp(w http.ResponseWriter, r *http.Request, _ *Visit) error {
	f, err := p.checkSetup(w, r)
	if err != nil {
		return err
	}
	if f.Private && !f.TestVault {
		return p.showAgain(w, r, "setup.html", f, errTestVault)
	}
	actor := audit.ActorOf(r.Context())
	actor.Type, actor.Name = audit.User, strings.TrimSpace(f.OwnerName)
	inst, owner, err := p.Accounts.Setup(audit.WithActor(r.Context(), actor), f.Token, account.NewInstitution{
		Name: f.Name, Prefix: f.Prefix, OwnerEmail: f.OwnerEmail, OwnerName: f.OwnerName, OwnerPassword: r.PostFormValue("owner_password"),
	})
	if err != nil {
		return p.showAgain(w, r, "setup.html", f, err)
	}
	p.makeKeys(r)
	if owner == 0 {
		return p.view.Redirect(w, r, "/sign-in", "owner_known")
	}
	var entry *identity.Entry
	if err := p.People.DB.Tx(r.Context(), func(tx *db.Tx) (err error) {
		entry, err = p.People.EnterTx(r.Context(), tx, owner, identity.BySetup, p.SignIn.Origin(r))
		return err
	}); err != nil {
		return err
	}
	p.SignIn.SetSession(w, entry)
	return p.view.Redirect(w, r, "/panel/"+inst.Slug, "set_up")
}

// makeKeys creates the signing key of a new institution. It only logs an error, because a periodic task
// tries again.
func (p *Panel) makeKeys(r *http.Request) {
	if err := p.CreateKeys(audit.WithActor(r.Context(), audit.Certvault)); err != nil {
		p.Log.ErrorContext(r.Context(), "a signing key could not be created", slog.String("request_id", web.RequestID(r)), slog.Any("error", err))
	}
}
