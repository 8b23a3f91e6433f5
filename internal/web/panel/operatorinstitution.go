package panel

import (
	"context"
	"net/http"
	"net/url"
	"strconv"
	"strings"

	"github.com/certvault/certvault/internal/account"
	"github.com/certvault/certvault/internal/cert"
	"github.com/certvault/certvault/internal/fault"
	"github.com/certvault/certvault/internal/job"
	"github.com/certvault/certvault/internal/quota"
	"github.com/certvault/certvault/internal/web"
)

// institutionsPerPage is the number of institutions on a page of the operator's list.
const institutionsPerPage = 50

// Numbers are the numbers about an institution that an operator sees.
type Numbers struct {
	quota.Usage

	// Certificates has the number of certificates with each status.
	Certificates map[cert.Status]int
}

// Total returns the number of certificates that are processing, approved, failed or revoked.
func (n Numbers) Total() int {
	return n.Certificates[cert.Processing] + n.Certificates[cert.Approved] + n.Certificates[cert.Failed] + n.Certificates[cert.Revoked]
}

// Of returns the number of certificates with a status.
func (n Numbers) Of(status string) int { return n.Certificates[cert.Status(status)] }

// operatorList is the data of the operator's list of institutions.
type operatorList struct {
	Text       string
	Total      int
	Rows       []operatorRow
	Prev, Next string
	// Counting reports whether the numbers of an institution in the list are still being counted.
	Counting bool
}

type operatorRow struct {
	account.InstitutionCount
	Numbers
}

// institutions lists the institutions that a search selects, with their numbers.
func (p *Panel) institutions(w http.ResponseWriter, r *http.Request, _ *Visit) error {
	list := operatorList{Text: r.URL.Query().Get("q")}
	page, err := strconv.Atoi(r.URL.Query().Get("page"))
	if err != nil || page < 1 {
		page = 1
	}
	var found []account.InstitutionCount
	if found, list.Total, err = p.Accounts.FindInstitutions(r.Context(), list.Text, (page-1)*institutionsPerPage, institutionsPerPage); err != nil {
		return err
	}
	ids := make([]int64, len(found))
	for i := range found {
		ids[i] = found[i].ID
	}
	numbers, err := p.Numbers(r.Context(), ids)
	if err != nil {
		return err
	}
	for i := range found {
		list.Rows = append(list.Rows, operatorRow{found[i], numbers[found[i].ID]})
		list.Counting = list.Counting || numbers[found[i].ID].Counting
	}
	if page > 1 {
		list.Prev = list.to(page - 1)
	}
	if page*institutionsPerPage < list.Total {
		list.Next = list.to(page + 1)
	}
	return p.draw(w, r, "operator_institutions.html", list)
}

func (l *operatorList) to(page int) string {
	q := url.Values{"page": {strconv.Itoa(page)}}
	if l.Text != "" {
		q.Set("q", l.Text)
	}
	return "/operator/institutions?" + q.Encode()
}

// operatorPage is the data of the operator's pages about one institution, with the input of their forms.
type operatorPage struct {
	Institution *account.Institution
	Members     int
	Numbers     Numbers
	// Public is the address of the institution's public page.
	Public string

	Name string
	// Allowed reports whether the operator allows a name that looks the same as the name of another
	// institution.
	Allowed      bool
	Reason, Slug string
	// Storage, Certificates and Requests are the saved or submitted limits.
	Storage, Certificates, Requests string
}

// Path returns the address of the page, or of a page below it.
func (o *operatorPage) Path(below ...string) string {
	return strings.Join(append([]string{"/operator/institutions/" + url.PathEscape(o.Institution.Slug)}, below...), "/")
}

// operatorPage returns the page of the institution with a slug.
func (p *Panel) operatorPage(ctx context.Context, slug string) (*operatorPage, error) {
	inst, err := p.Accounts.InstitutionBySlug(ctx, slug)
	if err != nil {
		return nil, err
	}
	if err := web.CheckSlug(slug, inst.Slug); err != nil {
		return nil, err
	}
	o := &operatorPage{
		Institution: inst, Public: p.Links.To("/apply/" + inst.Slug), Name: inst.Name, Slug: inst.Slug, Reason: inst.DisabledReason,
		Storage: account.FormatSize(inst.Limits.Storage), Certificates: strconv.FormatInt(inst.Limits.Certificates, 10), Requests: strconv.FormatInt(inst.Limits.Requests, 10),
	}
	if o.Members, err = p.Accounts.CountMembers(ctx, inst.ID); err != nil {
		return nil, err
	}
	numbers, err := p.Numbers(ctx, []int64{inst.ID})
	o.Numbers = numbers[inst.ID]
	return o, err
}

// ofInstitution returns the handler of a page about the institution in the path.
func (p *Panel) ofInstitution(name string) Handler {
	return func(w http.ResponseWriter, r *http.Request, _ *Visit) error {
		o, err := p.operatorPage(r.Context(), r.PathValue("slug"))
		if err != nil {
			return err
		}
		return p.draw(w, r, name, o)
	}
}

// operate calls f, which performs an operator's action on the institution in the path. If f returns an
// error that showAgain shows, operate shows the form again with the template of the given name. It returns
// any other error. If f succeeds, operate redirects to the page of the institution, which shows the notice.
func (p *Panel) operate(w http.ResponseWriter, r *http.Request, name string, f func(o *operatorPage) (notice string, err error)) error {
	o, err := p.operatorPage(r.Context(), r.PathValue("slug"))
	if err != nil {
		return err
	}
	notice, err := f(o)
	if err != nil {
		return p.showAgain(w, r, name, o, err)
	}
	if o.Institution, err = p.Accounts.Institution(r.Context(), o.Institution.ID); err != nil {
		return err
	}
	return p.view.Redirect(w, r, o.Path(), notice)
}

// rename changes the name of an institution. Only an operator can allow a name that looks the same as
// the name of another institution.
func (p *Panel) rename(w http.ResponseWriter, r *http.Request, _ *Visit) error {
	return p.operate(w, r, "operator_name.html", func(o *operatorPage) (string, error) {
		o.Name, o.Allowed = r.PostFormValue("name"), r.PostFormValue("allow_same_name") != ""
		_, err := p.Accounts.Change(r.Context(), o.Institution.ID, func(c *account.Changes) error {
			c.Name, c.AllowSameName = o.Name, o.Allowed
			return nil
		})
		return "institution_named", err
	})
}

// setState disables or enables an institution.
func (p *Panel) setState(w http.ResponseWriter, r *http.Request, _ *Visit) error {
	return p.operate(w, r, "operator_state.html", func(o *operatorPage) (string, error) {
		switch r.PostFormValue("state") {
		case "enabled":
			return "institution_enabled", p.Accounts.Enable(r.Context(), o.Institution.ID)
		case "disabled":
			o.Reason = r.PostFormValue("reason")
			return "institution_disabled", p.Accounts.Disable(r.Context(), o.Institution.ID, o.Reason)
		default:
			return "", errForm
		}
	})
}

// setLimits changes the limits of an institution.
func (p *Panel) setLimits(w http.ResponseWriter, r *http.Request, _ *Visit) error {
	return p.operate(w, r, "operator_limits.html", func(o *operatorPage) (string, error) {
		if !r.PostForm.Has("storage") {
			return "", errForm // an incomplete form must not remove limits
		}
		o.Storage, o.Certificates, o.Requests = r.PostFormValue("storage"), r.PostFormValue("certificates"), r.PostFormValue("requests")
		var bad fault.Fields
		number := func(name, text string) int64 {
			if strings.TrimSpace(text) == "" {
				return 0
			}
			n, err := strconv.ParseInt(strings.TrimSpace(text), 10, 64)
			if err != nil {
				bad.Add(name, account.LimitRule)
			}
			return n
		}
		l := account.Limits{Certificates: number("certificates", o.Certificates), Requests: number("requests", o.Requests)}
		var err error
		if strings.TrimSpace(o.Storage) != "" {
			l.Storage, err = account.ParseSize(o.Storage)
		}
		if err == nil {
			err = bad.Err()
		}
		if err == nil {
			err = p.Accounts.SetLimits(r.Context(), o.Institution.ID, l)
		}
		return "institution_limited", err
	})
}

// setAddress changes the slug of an institution.
func (p *Panel) setAddress(w http.ResponseWriter, r *http.Request, _ *Visit) error {
	return p.operate(w, r, "operator_address.html", func(o *operatorPage) (string, error) {
		o.Slug = strings.ToLower(strings.TrimSpace(r.PostFormValue("slug")))
		return "institution_moved", p.Accounts.SetSlug(r.Context(), o.Institution.ID, o.Slug)
	})
}

// Servers are the servers of the vault and its periodic tasks.
type Servers struct {
	Nodes []job.Node
	Tasks []job.Task
}

// NameOf returns the name of the node with an id, or "".
func (s *Servers) NameOf(id string) string {
	for _, n := range s.Nodes {
		if n.ID == id {
			return n.Name
		}
	}
	return ""
}

func (p *Panel) servers(w http.ResponseWriter, r *http.Request, _ *Visit) error {
	s, err := p.Servers(r.Context())
	if err != nil {
		return err
	}
	return p.draw(w, r, "operator_servers.html", s)
}
