package api

import (
	"context"
	"net/http"

	"github.com/certvault/certvault/internal/cert"
	"github.com/certvault/certvault/internal/db"
	"github.com/certvault/certvault/internal/web"
)

// one is a response with one record.
type one struct {
	Data any `json:"data"`
}

func (a *API) find(c *call) (*cert.Certificate, error) {
	id, err := c.pathUUID()
	if err != nil {
		return nil, err
	}
	return a.Certs.ByUUID(c.Context(), c.institution.ID, id)
}

func (a *API) view(w http.ResponseWriter, c *call) error {
	found, err := a.find(c)
	if err != nil {
		return err
	}
	data, err := a.wire(found, c.institution)
	if err != nil {
		return err
	}
	return web.WriteJSON(w, http.StatusOK, one{Data: data})
}

func (a *API) download(w http.ResponseWriter, c *call) error {
	found, err := a.find(c)
	if err != nil {
		return err
	}
	return a.sendVerified(w, c, found)
}

// answerWith responds to an operation with the certificate that it changed.
func (a *API) answerWith(c *call, answer answerTx, status int, text string) cert.Then {
	return func(ctx context.Context, tx *db.Tx, moved *cert.Certificate) error {
		data, err := a.wire(moved, c.institution)
		if err != nil {
			return err
		}
		return answer(ctx, tx, status, message{Message: text, Data: data})
	}
}

func (a *API) retry(w http.ResponseWriter, c *call) error {
	// An unknown record is 404, whatever else is wrong.
	found, err := a.find(c)
	if err != nil {
		return err
	}
	return a.once(w, c, func(*fingerprint) error { return nil }, func(answer answerTx) error {
		_, err := a.Certs.Retry(c.Context(), c.institution.ID, found.UUID, a.answerWith(c, answer, http.StatusOK, "Certificate processing has been started again."))
		return err
	})
}

func (a *API) revoke(w http.ResponseWriter, c *call) error {
	// An unknown record is 404, whatever the body contains.
	found, err := a.find(c)
	if err != nil {
		return err
	}
	var body struct {
		Reason string `json:"reason"`
		Note   string `json:"note"`
	}
	return a.once(w, c, func(p *fingerprint) error { return readJSON(w, c.Request, p, &body) }, func(answer answerTx) error {
		_, err := a.Certs.Revoke(c.Context(), c.institution.ID, found.UUID, cert.Revocation{
			Reason: body.Reason, Note: body.Note, Then: a.answerWith(c, answer, http.StatusOK, "Certificate revoked."),
		})
		return err
	})
}
