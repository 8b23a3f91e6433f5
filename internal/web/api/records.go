package api

import (
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"mime"
	"net/http"

	"github.com/certvault/certvault/internal/cert"
	"github.com/certvault/certvault/internal/fault"
	"github.com/certvault/certvault/internal/web"
)

// maxJSON bounds a JSON body in bytes.
const maxJSON = 64 << 10

// one is the answer with one record.
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

func (a *API) download(w http.ResponseWriter, c *call) (err error) {
	found, err := a.find(c)
	if err != nil {
		return err
	}
	content, err := a.Certs.OpenVerified(c.Context(), found)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, content.Close()) }()
	h := w.Header()
	h.Set("Content-Type", "application/pdf")
	h.Set("Content-Disposition", mime.FormatMediaType("attachment", map[string]string{"filename": found.ReferenceID + ".pdf"}))
	return web.ServeContent(w, c.Request, content, hex.EncodeToString(found.Verified.SHA256[:]))
}

func (a *API) retry(w http.ResponseWriter, c *call) error {
	id, err := c.pathUUID()
	if err != nil {
		return err
	}
	moved, err := a.Certs.Retry(c.Context(), c.institution.ID, id)
	if err != nil {
		return err
	}
	data, err := a.wire(moved, c.institution)
	if err != nil {
		return err
	}
	return web.WriteJSON(w, http.StatusOK, message{Message: "Certificate processing has been started again.", Data: data})
}

func (a *API) revoke(w http.ResponseWriter, c *call) error {
	id, err := c.pathUUID()
	if err != nil {
		return err
	}
	// An unknown record is 404 whatever the body says.
	if _, err := a.Certs.ByUUID(c.Context(), c.institution.ID, id); err != nil {
		return err
	}
	var body struct {
		Reason string `json:"reason"`
		Note   string `json:"note"`
	}
	if err := readJSON(w, c.Request, &body); err != nil {
		return err
	}
	moved, err := a.Certs.Revoke(c.Context(), c.institution.ID, id, cert.Revocation{Reason: body.Reason, Note: body.Note})
	if err != nil {
		return err
	}
	data, err := a.wire(moved, c.institution)
	if err != nil {
		return err
	}
	return web.WriteJSON(w, http.StatusOK, message{Message: "Certificate revoked.", Data: data})
}

// readJSON reads a JSON object into v; a field of the wrong type is named.
func readJSON(w http.ResponseWriter, r *http.Request, v any) error {
	mediaType, _, err := mime.ParseMediaType(r.Header.Get("Content-Type"))
	if err != nil || mediaType != "application/json" {
		return fault.New(fault.Unsupported, "The request must be application/json.")
	}
	body, err := io.ReadAll(http.MaxBytesReader(w, r.Body, maxJSON))
	if tooLarge, ok := errors.AsType[*http.MaxBytesError](err); ok {
		return fault.Wrap(fault.TooLarge, fmt.Sprintf("The request body is larger than %d KiB.", tooLarge.Limit>>10), err)
	}
	if err != nil {
		return fault.Wrap(fault.Invalid, "The request body could not be read to its end.", err)
	}
	err = json.Unmarshal(body, v)
	if wrong, ok := errors.AsType[*json.UnmarshalTypeError](err); ok && wrong.Field != "" {
		return fault.OfField(wrong.Field, "The "+wrong.Field+" field must be a "+wrong.Type.String()+".")
	}
	if err != nil {
		return fault.Wrap(fault.Invalid, "The request body is not a JSON object.", err)
	}
	return nil
}
