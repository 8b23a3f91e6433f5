package public

import (
	"net/http"

	"github.com/certvault/certvault/internal/web"
	"github.com/certvault/certvault/internal/web/page"
)

// setup is where the set-up link leads. From other machines it leads nowhere,
// unless the operator said so.
func (p *Pages) setup(w http.ResponseWriter, r *http.Request) error {
	w.Header().Set("Cache-Control", "no-store")
	if !p.SetupRemote && !web.Client(r).IsLoopback() {
		return page.ErrUnknown
	}
	works, err := p.Accounts.SetupLinkWorks(r.Context(), r.URL.Query().Get("token"))
	if err != nil {
		return err
	}
	if !works {
		return page.ErrUnknown
	}
	return p.view.Draw(w, r, http.StatusOK, "setup.html", nil)
}
