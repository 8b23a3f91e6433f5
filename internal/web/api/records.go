package api

import (
	"net/http"

	"github.com/certvault/certvault/internal/cert"
	"github.com/certvault/certvault/internal/token"
	"github.com/certvault/certvault/internal/web"
)

// recordResponse is a response with one record.
type recordResponse struct {
	Data any `json:"data"`
}

func (a *API) find(c *call) (*cert.Certificate, error) {
	id, err := c.pathUUID()
	if err != nil {
		return nil, err
	}
	return a.Certs.ByUUID(c.Context(), c.institution.ID, id)
}

// findVault returns the certificate in the path of a route of vault certificates. It returns a
// certificate of another source only if the token may view certificates of every source.
func (a *API) findVault(c *call) (*cert.Certificate, error) {
	return a.findGeneral(c, token.CertificateView)
}

func (a *API) view(w http.ResponseWriter, c *call) error {
	found, err := a.findVault(c)
	if err != nil {
		return err
	}
	data, err := a.wireAll(c.Context(), nil, c.institution, found)
	if err != nil {
		return err
	}
	return web.WriteJSON(w, http.StatusOK, recordResponse{Data: data[0]})
}

func (a *API) download(w http.ResponseWriter, c *call) error {
	found, err := a.findGeneral(c, token.CertificateDownload)
	if err != nil {
		return err
	}
	return a.sendVerified(w, c, found)
}

func (a *API) retry(w http.ResponseWriter, c *call) error {
	// For an unknown record the status is 404, even if the request has other errors.
	found, err := a.findVault(c)
	if err != nil {
		return err
	}
	x, err := a.begin(c)
	if err != nil {
		return err
	}
	defer x.release()
	if err = x.complete(); err == nil {
		_, err = a.Certs.Retry(c.Context(), c.institution.ID, found.UUID, x.withCertificate(http.StatusOK, "Certificate processing has been started again."))
	}
	return x.end(w, err)
}

func (a *API) revoke(w http.ResponseWriter, c *call) error {
	// For an unknown record the status is 404, even if the body is invalid.
	found, err := a.findVault(c)
	if err != nil {
		return err
	}
	x, err := a.begin(c)
	if err != nil {
		return err
	}
	defer x.release()
	var fields struct {
		Reason string `json:"reason"`
		Note   string `json:"note"`
		Notify *bool  `json:"notify"`
	}
	if err = readJSON(w, x, &fields); err == nil {
		_, err = a.Certs.Revoke(c.Context(), c.institution.ID, found.UUID, cert.Revocation{
			Reason: fields.Reason, Note: fields.Note, Notify: fields.Notify == nil || *fields.Notify,
			Then: x.withCertificate(http.StatusOK, "Certificate revoked."),
		})
	}
	return x.end(w, err)
}
