package panel

import (
	"errors"
	"io"
	"net/http"
	"slices"
	"strings"
	"time"

	"github.com/certvault/certvault/internal/account"
	"github.com/certvault/certvault/internal/cert"
	"github.com/certvault/certvault/internal/fault"
	"github.com/certvault/certvault/internal/issuer"
	"github.com/certvault/certvault/internal/task"
	"github.com/certvault/certvault/internal/template"
	"github.com/certvault/certvault/internal/web"
	"github.com/certvault/certvault/internal/web/body"
)

// achievementRoutes returns the routes for achievements and for credentials.
func (p *Panel) achievementRoutes() []route {
	may := account.MayManageTemplates
	return []route{
		{pattern: "GET /panel/{institution}/achievements", may: may, handler: p.achievements},
		{pattern: "GET /panel/{institution}/achievements/new", may: may, handler: p.achievement},
		{pattern: "POST /panel/{institution}/achievements/new", may: may, handler: p.saveAchievement, limits: achievementLimits},
		{pattern: "GET /panel/{institution}/achievements/{achievement}", may: may, handler: p.achievement},
		{pattern: "POST /panel/{institution}/achievements/{achievement}", may: may, handler: p.saveAchievement, limits: achievementLimits},
		{pattern: "GET /panel/{institution}/achievements/{achievement}/delete", may: may, handler: p.askDeleteAchievement},
		{pattern: "POST /panel/{institution}/achievements/{achievement}/delete", may: may, handler: p.deleteAchievement},

		{pattern: "GET /panel/{institution}/certificates/{certificate}/credential", may: account.MayView, handler: p.credentialFile},
		{pattern: "POST /panel/{institution}/certificates/credentials", may: account.MayView, handler: p.exportCredentials},
	}
}

// maxPictureForm is the maximum size in bytes of the form of an achievement. It is larger than the
// maximum size of a picture.
const maxPictureForm = 3 << 20

var achievementLimits = &body.Limits{
	Size: maxPictureForm, Time: 2 * time.Minute, Parts: 10, TooLarge: fault.New(fault.TooLarge, "achievements.problem_picture"), Broken: errUpload,
}

// achievementsPage is the data of the list of achievements.
type achievementsPage struct {
	Visit *Visit
	List  []*issuer.Achievement
}

// achievements shows the list of the achievements of the institution.
func (p *Panel) achievements(w http.ResponseWriter, r *http.Request, v *Visit) error {
	list, err := p.Issuer.Achievements(r.Context(), v.Institution().ID)
	if err != nil {
		return err
	}
	return p.draw(w, r, "achievements.html", &achievementsPage{v, list})
}

// achievementPage is the data of the form of an achievement. A is nil for a new achievement.
type achievementPage struct {
	Visit *Visit
	A     *issuer.Achievement
	In    issuer.AchievementInput
	// Picture is the address of the stored picture, or "".
	Picture string
	// Templates are the templates to choose from: all that are not archived, and the template of the
	// achievement.
	Templates []issuer.AchievementTemplate
}

func (p *Panel) achievementPage(r *http.Request, v *Visit) (*achievementPage, error) {
	d := &achievementPage{Visit: v}
	templates, err := p.Templates.List(r.Context(), v.Institution().ID, template.Filter{})
	if err != nil {
		return nil, err
	}
	for _, t := range templates {
		d.Templates = append(d.Templates, issuer.AchievementTemplate{UUID: t.UUID, Name: t.Name})
	}
	id := r.PathValue("achievement")
	if id == "" {
		// A link to the form can contain the title.
		d.In.Title = r.URL.Query().Get("title")
		return d, nil
	}
	if d.A, err = p.Issuer.Achievement(r.Context(), v.Institution().ID, id); err != nil {
		return nil, err
	}
	d.In = issuer.AchievementInput{
		Title: d.A.Title, Description: d.A.Description, Criteria: d.A.Criteria, CriteriaURL: d.A.CriteriaURL, Skills: strings.Join(d.A.Skills, "\n"),
	}
	if t := d.A.Template; t != nil {
		d.In.Template = t.UUID
		if !slices.Contains(d.Templates, *t) { // it is archived
			d.Templates = append(d.Templates, *t)
		}
	}
	if d.A.Picture != "" {
		d.Picture = issuer.PicturePath(v.Institution().UUID, d.A)
	}
	return d, nil
}

// achievement shows the form of an achievement.
func (p *Panel) achievement(w http.ResponseWriter, r *http.Request, v *Visit) error {
	d, err := p.achievementPage(r, v)
	if err != nil {
		return err
	}
	return p.draw(w, r, "achievement.html", d)
}

// saveAchievement creates or changes an achievement.
func (p *Panel) saveAchievement(w http.ResponseWriter, r *http.Request, v *Visit) error {
	d, err := p.achievementPage(r, v)
	if err != nil {
		return err
	}
	if d.In, err = readAchievement(r); err == nil {
		_, err = p.Issuer.SaveAchievement(r.Context(), v.Institution().ID, r.PathValue("achievement"), d.In)
	}
	if err != nil {
		return p.showAgain(w, r, "achievement.html", d, achievementError(err))
	}
	return p.redirect(w, r, v, "achievements", "achievement_saved")
}

// readAchievement reads the form of an achievement.
func readAchievement(r *http.Request) (in issuer.AchievementInput, err error) {
	form, err := body.OpenForm(r)
	if err != nil {
		return in, err
	}
	for form.Next() {
		part := form.Part()
		if part.FormName() == "picture" {
			if file := part.Value(maxPictureForm, io.Discard); len(file) > 0 {
				in.Picture = file
			}
			continue
		}
		value := string(part.Value(maxForm, io.Discard))
		switch part.FormName() {
		case "title":
			in.Title = value
		case "description":
			in.Description = value
		case "criteria":
			in.Criteria = value
		case "criteria_url":
			in.CriteriaURL = value
		case "skills":
			in.Skills = value
		case "template":
			in.Template = value
		case "remove":
			in.RemovePicture = value != ""
		default:
		}
	}
	return in, form.Err()
}

// achievementError replaces the codes in an error with the catalog keys of their texts.
func achievementError(err error) error {
	e, ok := errors.AsType[*fault.Error](err)
	if !ok || e.Kind != fault.Invalid {
		return err
	}
	changed := &fault.Error{Kind: e.Kind, Err: err}
	for _, f := range e.Fields {
		changed.Fields = append(changed.Fields, fault.Field{Name: f.Name, Messages: []string{"achievements.problem_" + f.Messages[0]}})
	}
	return changed
}

// askDeleteAchievement asks for confirmation before an achievement is deleted.
func (p *Panel) askDeleteAchievement(w http.ResponseWriter, r *http.Request, v *Visit) error {
	d, err := p.achievementPage(r, v)
	if err != nil {
		return err
	}
	return p.draw(w, r, "achievement_delete.html", d)
}

// deleteAchievement deletes an achievement.
func (p *Panel) deleteAchievement(w http.ResponseWriter, r *http.Request, v *Visit) error {
	if err := p.Issuer.DeleteAchievement(r.Context(), v.Institution().ID, r.PathValue("achievement")); err != nil {
		return err
	}
	return p.redirect(w, r, v, "achievements", "achievement_deleted")
}

// credentialFile sends the credential of a certificate.
func (p *Panel) credentialFile(w http.ResponseWriter, r *http.Request, v *Visit) error {
	c, err := p.certificateOf(r, v)
	if err != nil {
		return err
	}
	return web.SendCredential(w, r, p.Issuer, c)
}

// exportCredentials sends the credentials of the selected certificates as a ZIP file.
func (p *Panel) exportCredentials(w http.ResponseWriter, r *http.Request, v *Visit) error {
	return p.export(w, r, v, func(c task.Selection) error {
		archive, err := p.Tasks.Credentials(r.Context(), v.Institution().ID, c)
		if err != nil {
			return p.listAgain(w, r, v, err)
		}
		if err := download(w, "application/zip", v.Institution().Slug+"-credentials-"+p.Now().UTC().Format(time.DateOnly)+".zip"); err != nil {
			return err
		}
		_, err = w.Write(archive) //nolint:gosec // a ZIP file, sent as a download
		return p.finishStream(r, err)
	})
}

// HasCredential reports whether the page offers the credential of the certificate. It does not offer the
// credential of a revoked certificate.
func (c *certificatePage) HasCredential() bool { return issuer.Has(c.C) && c.C.Status == cert.Approved }
