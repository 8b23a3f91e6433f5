package panel

import (
	"errors"
	"net/http"
	"slices"
	"strings"
	"time"

	"github.com/certvault/certvault/internal/fault"
	"github.com/certvault/certvault/internal/token"
)

// tokenForm contains the input for a token, as typed.
type tokenForm struct {
	Visit *Visit
	Name  string
	// Chosen are the selected permissions.
	Chosen map[token.Permission]bool
	// End is one of ends, or a date.
	End, Date string
}

// ends are the choices of how long a token is valid.
var ends = []struct {
	Value, Label string
	Days         int
}{
	{"30", "30 days", 30}, {"90", "90 days", 90}, {"365", "One year", 365}, {"date", "Until a date", 0}, {"never", "No end", 0},
}

// usualEnd is the default.
const usualEnd = "90"

// Presets returns common sets of permissions.
func (*tokenForm) Presets() []token.Preset { return token.Presets }

// Groups returns all permissions, in groups.
func (*tokenForm) Groups() []token.Group { return token.Groups }

// Ends returns the choices of how long a token is valid.
func (*tokenForm) Ends() any { return ends }

// newToken shows the form of a token. A preset in the query string selects permissions.
func (p *Panel) newToken(w http.ResponseWriter, r *http.Request, v *Visit) error {
	form := &tokenForm{Visit: v, End: usualEnd, Chosen: map[token.Permission]bool{}, Name: r.URL.Query().Get("name")}
	for _, preset := range token.Presets {
		if preset.Name == r.URL.Query().Get("preset") {
			for _, one := range preset.Permissions {
				form.Chosen[one] = true
			}
		}
	}
	return p.draw(w, r, "token_new.html", form)
}

// createToken makes a token and shows it once.
func (p *Panel) createToken(w http.ResponseWriter, r *http.Request, v *Visit) error {
	form := &tokenForm{
		Visit: v, Name: r.PostForm.Get("name"), End: r.PostForm.Get("end"), Date: strings.TrimSpace(r.PostForm.Get("date")), Chosen: map[token.Permission]bool{},
	}
	var permissions []token.Permission
	for _, one := range r.PostForm["permissions"] {
		form.Chosen[token.Permission(one)] = true
		permissions = append(permissions, token.Permission(one))
	}
	end, err := form.end(p.Now())
	var made *token.Token
	var secret string
	if err == nil {
		made, secret, err = p.Tokens.Create(r.Context(), v.Institution().ID, form.Name, permissions, end)
	}
	if err != nil {
		return p.showAgain(w, r, "token_new.html", form, atControls(err))
	}
	return p.showToken(w, r, v, made, secret)
}

// atControls renames the fields of an error to the controls of this form.
func atControls(err error) error {
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

// end returns the time at which the token expires, nil for never. A date is valid to its end, in
// UTC.
func (f *tokenForm) end(now time.Time) (*time.Time, error) {
	switch f.End {
	case "never":
		return nil, nil //nolint:nilnil // no end is a choice
	case "date":
		day, err := time.Parse(time.DateOnly, f.Date)
		if err != nil {
			return nil, fault.OfField("date", "Give the last day as YYYY-MM-DD.")
		}
		end := day.AddDate(0, 0, 1)
		return &end, nil
	}
	for _, one := range ends {
		if one.Value == f.End && one.Days > 0 {
			end := now.UTC().AddDate(0, 0, one.Days)
			return &end, nil
		}
	}
	return nil, fault.OfField("end", "Choose when the token ends.")
}

// madeToken is a token with its secret, which is shown once.
type madeToken struct {
	Visit  *Visit
	Token  tokenRow
	Secret string
	// Try is a command line that uses the token.
	Try string
	// Old is the token that it succeeds, nil for none.
	Old *tokenRow
}

func (p *Panel) showToken(w http.ResponseWriter, r *http.Request, v *Visit, made *token.Token, secret string) error {
	return p.draw(w, r, "token_made.html", madeToken{Visit: v, Token: p.tokenRow(made), Secret: secret, Try: p.tryLine(made, secret)})
}

// tryLine returns a command line for a request that the token may make; a read-only request if
// possible.
func (p *Panel) tryLine(t *token.Token, secret string) string {
	for _, one := range []struct {
		may  token.Permission
		path string
	}{
		{token.VaultList, "/business/certificate-vault?per_page=5"}, {token.TemplateList, "/business/certificate-templates"},
		{token.BatchList, "/business/batches"}, {token.CertificateList, "/business/certificates"},
	} {
		if t.Has(one.may) {
			return "curl \"" + p.BaseURL + one.path + "\" \\\n  -H \"Authorization: Bearer " + secret + "\" \\\n  -H \"Accept: application/json\""
		}
	}
	if t.Has(token.VaultCreate) {
		return "curl \"" + p.BaseURL + "/business/certificate-vault\" \\\n  -H \"Authorization: Bearer " + secret + "\" \\\n  -H \"Accept: application/json\" \\\n" +
			"  -F \"certificate_title=Test\" -F \"full_name=Test Person\" \\\n  -F \"applicant_email=you@example.org\" -F \"certificate_file=@diploma.pdf\""
	}
	return "curl \"" + p.BaseURL + "/business/certificate-vault/UUID\" \\\n  -H \"Authorization: Bearer " + secret + "\" \\\n  -H \"Accept: application/json\""
}
