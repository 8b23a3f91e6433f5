package panel

import (
	"cmp"
	"errors"
	"net/http"
	"slices"
	"strings"
	"time"

	"github.com/certvault/certvault/internal/fault"
	"github.com/certvault/certvault/internal/token"
)

// tokenForm is the data of the form of a new token.
type tokenForm struct {
	Visit *Visit
	Name  string
	// Chosen are the selected permissions.
	Chosen map[token.Permission]bool
	// End is the value of one of the choices in ends. Date is the last day if End is "date".
	End, Date string
	// Preset is the name of the preset that was selected last, or "".
	Preset string
}

// ends are the choices of how long a token is valid.
var ends = []struct {
	Value string
	Days  int
}{{"30", 30}, {"90", 90}, {"365", 365}, {"date", 0}, {"never", 0}}

// defaultEnd is the value of the choice that is selected initially.
const defaultEnd = "90"

// Presets returns common sets of permissions.
func (*tokenForm) Presets() []token.Preset { return token.Presets }

// permissionGroup is a group of permissions on the page. Key is the key of its label.
type permissionGroup struct {
	Key         string
	Permissions []permissionChoice
}

// permissionChoice is a permission on the page. Key is the key of its description.
type permissionChoice struct {
	Permission token.Permission
	Key        string
}

// Groups returns all permissions, in groups.
func (*tokenForm) Groups() []permissionGroup {
	groups := make([]permissionGroup, len(token.Groups))
	for i, g := range token.Groups {
		groups[i].Key = "token_permissions.group_" + g.Name
		for _, p := range g.Permissions {
			groups[i].Permissions = append(groups[i].Permissions, permissionChoice{p, "token_permissions." + keyName(p)})
		}
	}
	return groups
}

// keyName returns the name of a permission, an action or a similar constant as a part of a key of the
// catalog.
func keyName[T ~string](name T) string {
	return strings.NewReplacer(".", "_", ":", "_", "-", "_").Replace(string(name))
}

// Ends returns the choices of how long a token is valid.
func (*tokenForm) Ends() any { return ends }

// newToken shows the form of a new token. The query may contain the name of a preset and the input of the
// form, because the button of a preset sends the form as a query.
func (p *Panel) newToken(w http.ResponseWriter, r *http.Request, v *Visit) error {
	q := r.URL.Query()
	form := &tokenForm{
		Visit: v, End: cmp.Or(q.Get("end"), defaultEnd), Date: q.Get("date"), Chosen: map[token.Permission]bool{}, Name: q.Get("name"), Preset: q.Get("preset"),
	}
	for _, preset := range token.Presets {
		if preset.Name == form.Preset {
			for _, permission := range preset.Permissions {
				form.Chosen[permission] = true
			}
		}
	}
	return p.draw(w, r, "token_new.html", form)
}

// createToken creates a token and shows its secret once.
func (p *Panel) createToken(w http.ResponseWriter, r *http.Request, v *Visit) error {
	form := &tokenForm{
		Visit: v, Name: r.PostForm.Get("name"), End: r.PostForm.Get("end"), Date: strings.TrimSpace(r.PostForm.Get("date")), Chosen: map[token.Permission]bool{},
	}
	var permissions []token.Permission
	for _, permission := range r.PostForm["permissions"] {
		form.Chosen[token.Permission(permission)] = true
		permissions = append(permissions, token.Permission(permission))
	}
	end, err := form.end(p.Now())
	var created *token.Token
	var secret string
	if err == nil {
		created, secret, err = p.Tokens.Create(r.Context(), v.Institution().ID, form.Name, permissions, end)
	}
	if err != nil {
		return p.showAgain(w, r, "token_new.html", form, withTokenControls(err))
	}
	return p.showToken(w, r, v, created, secret, nil)
}

// withTokenControls renames the field "expires" of an error to "date", the name of the control in the form.
func withTokenControls(err error) error {
	e, ok := errors.AsType[*fault.Error](err)
	if !ok || e.Kind != fault.Invalid {
		return err
	}
	renamed := *e
	renamed.Fields = slices.Clone(e.Fields)
	for i := range renamed.Fields {
		if renamed.Fields[i].Name == "expires" {
			renamed.Fields[i].Name = "date"
		}
	}
	return &renamed
}

// end returns the time at which the token expires, or nil if the token never expires. If the member chose
// a date, the token is valid until the end of that day in UTC.
func (f *tokenForm) end(now time.Time) (*time.Time, error) {
	switch f.End {
	case "never":
		return nil, nil //nolint:nilnil // nil means that the token never expires
	case "date":
		day, err := time.Parse(time.DateOnly, f.Date)
		if err != nil {
			return nil, fault.OfField("date", "tokens.choose_date")
		}
		end := day.AddDate(0, 0, 1)
		return &end, nil
	}
	for _, choice := range ends {
		if choice.Value == f.End && choice.Days > 0 {
			end := now.UTC().AddDate(0, 0, choice.Days)
			return &end, nil
		}
	}
	return nil, fault.OfField("end", "tokens.choose_end")
}

// createdToken is the data of the page that shows the secret of a new token. The secret is shown
// only once.
type createdToken struct {
	Visit  *Visit
	Token  tokenRow
	Secret string
	// Command is a command line that uses the token. Certificate is the file with the vault's own
	// TLS certificate that the command uses, or "".
	Command, Certificate string
	// Old is the token that the new token replaces, or nil.
	Old *tokenRow
}

func (p *Panel) showToken(w http.ResponseWriter, r *http.Request, v *Visit, created *token.Token, secret string, old *tokenRow) error {
	return p.draw(w, r, "token_made.html", createdToken{
		Visit: v, Token: p.tokenRow(created), Secret: secret, Command: p.curlExample(created, secret), Certificate: p.OwnCertificate, Old: old,
	})
}

// curlExample returns a command line for a request with a token. If the token allows a list, the request
// is for this list. Otherwise, if the token allows uploads, it is an upload. For other tokens, it is a
// request for one certificate, with the placeholder UUID.
func (p *Panel) curlExample(t *token.Token, secret string) string {
	path, form := "/business/certificate-vault/UUID", ""
	if t.Has(token.VaultCreate) {
		path = "/business/certificate-vault"
		form = " \\\n  -F \"certificate_title=Test\" -F \"full_name=Test Person\" \\\n  -F \"applicant_email=you@example.org\" -F \"certificate_file=@certificate.pdf\""
	}
	for _, example := range []struct {
		may  token.Permission
		path string
	}{
		{token.VaultList, "/business/certificate-vault?per_page=5"}, {token.TemplateList, "/business/certificate-templates"},
		{token.BatchList, "/business/batches"}, {token.CertificateList, "/business/certificates"},
		{token.ApplicationList, "/business/certificate-applications?per_page=5"}, {token.OfferList, "/business/certificate-offers"},
	} {
		if t.Has(example.may) {
			path, form = example.path, ""
			break
		}
	}
	command := "curl \"" + p.BaseURL + path + "\" \\\n"
	if p.OwnCertificate != "" {
		command += "  --cacert " + shellQuoted(p.OwnCertificate) + " \\\n"
	}
	return command + "  -H \"Authorization: Bearer " + secret + "\" \\\n  -H \"Accept: application/json\"" + form
}

// shellQuoted quotes a text as one word for a POSIX shell.
func shellQuoted(text string) string { return "'" + strings.ReplaceAll(text, "'", `'\''`) + "'" }
