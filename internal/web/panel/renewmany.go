package panel

import (
	"net/http"
	"strconv"

	"github.com/certvault/certvault/internal/account"
	"github.com/certvault/certvault/internal/cert"
	"github.com/certvault/certvault/internal/db"
	"github.com/certvault/certvault/internal/fault"
	"github.com/certvault/certvault/internal/task"
)

// renewMany asks for confirmation before many certificates are renewed. After the confirmation, it starts a
// task, which renews those certificates that were issued from templates.
func (p *Panel) renewMany(w http.ResponseWriter, r *http.Request, v *Visit) error {
	if !v.Can(account.MayRevoke) {
		return errForbidden
	}
	c, err := selectionOf(r.PostForm)
	if err != nil {
		return p.listAgain(w, r, v, err)
	}
	if len(c.Selected) == 0 && len(c.Filter.Statuses) == 0 {
		c.Filter.Statuses = []cert.Status{cert.Approved}
	}
	m := &revokeManyForm{
		List: &certificateList{Visit: v, Query: r.PostForm}, Selected: c.Selected, All: len(c.Selected) == 0, N: strconv.Itoa(len(c.Selected)),
		ShownAt: db.Micros(p.Now()),
	}
	applies, err := p.applies(r, v, c, cert.Approved)
	if err == nil && m.All {
		m.N, err = p.countOf(r, v, task.Renew, c.Filter)
	}
	if err != nil {
		return p.listAgain(w, r, v, withControls(err))
	}
	if !applies {
		return p.backToList(w, r, v, "nothing_renews")
	}
	if err := p.fillNames(r, v, m, c); err != nil {
		return err
	}
	if r.PostForm.Get("sure") == "" {
		return p.draw(w, r, "renew_many.html", m)
	}
	if m.Typed() != "" && digitsOf(r.PostForm.Get("number")) != m.Typed() {
		return p.showAgain(w, r, "renew_many.html", m, fault.OfField("number", "revoke_many.number_differs"))
	}
	c.Before = shownAt(r.PostForm)
	started, err := p.Tasks.Start(r.Context(), v.Institution().ID, task.Request{Kind: task.Renew, Selection: c})
	if err != nil {
		return p.showAgain(w, r, "renew_many.html", m, err)
	}
	return p.redirect(w, r, v, "tasks/"+started.UUID, "")
}
