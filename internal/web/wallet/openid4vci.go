package wallet

import (
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"strings"

	"github.com/certvault/certvault/internal/account"
	"github.com/certvault/certvault/internal/fault"
	"github.com/certvault/certvault/internal/issuer"
	"github.com/certvault/certvault/internal/web"
	"github.com/certvault/certvault/internal/web/body"
)

// Numbers of sections without the name of a document are those of OpenID for Verifiable Credential
// Issuance 1.0.

// preAuthorized is the grant type of a pre-authorized code (3.5).
const preAuthorized = "urn:ietf:params:oauth:grant-type:pre-authorized_code"

// protocolRoutes adds the routes of OpenID4VCI.
func (a *API) protocolRoutes(route func(pattern string, f web.Func)) {
	// The well-known part is between the host and the path of the issuer (12.2.2, RFC 8414, 3.1).
	route("GET /.well-known/openid-credential-issuer/institutions/{uuid}", a.forInstitution(a.metadata))
	route("GET /.well-known/oauth-authorization-server/institutions/{uuid}", a.forInstitution(a.authorizationServer))
	route("GET /institutions/{uuid}/openid4vci/offers/{secret}", a.forInstitution(a.offer))
	route("POST /institutions/{uuid}/openid4vci/token", a.forInstitution(protocol(a.token)))
	route("POST /institutions/{uuid}/openid4vci/nonce", a.forInstitution(protocol(a.nonce)))
	route("POST /institutions/{uuid}/openid4vci/credential", a.forInstitution(protocol(a.credential)))
}

type institutionHandler = func(w http.ResponseWriter, r *http.Request, i *account.Institution) error

// protocol returns a handler that writes a *issuer.WalletError as the protocol requires (RFC 6749,
// 5.2; RFC 6750, 3; 8.3.1.2), and forbids caching.
func protocol(f institutionHandler) institutionHandler {
	return func(w http.ResponseWriter, r *http.Request, i *account.Institution) error {
		w.Header().Set("Cache-Control", "no-store")
		err := f(w, r, i)
		e, ok := errors.AsType[*issuer.WalletError](err)
		if !ok {
			return err
		}
		status := http.StatusBadRequest
		if e.Code == "invalid_token" {
			status = http.StatusUnauthorized
			w.Header().Set("WWW-Authenticate", `Bearer error="invalid_token"`)
		}
		return web.WriteJSON(w, status, struct {
			Error       string `json:"error"`
			Description string `json:"error_description"`
		}{e.Code, e.Description})
	}
}

func (a *API) metadata(w http.ResponseWriter, r *http.Request, i *account.Institution) error {
	m, err := a.Issuer.Metadata(r.Context(), i)
	if err != nil {
		return err
	}
	w.Header().Set("Cache-Control", "public, max-age="+documentAge)
	return web.WriteJSON(w, http.StatusOK, m)
}

// authorizationServer writes the metadata of the authorization server (RFC 8414, 2; 12.3). The
// institution is its own authorization server.
func (a *API) authorizationServer(w http.ResponseWriter, _ *http.Request, i *account.Institution) error {
	id := a.Issuer.ID(i.UUID)
	w.Header().Set("Cache-Control", "public, max-age="+documentAge)
	return web.WriteJSON(w, http.StatusOK, struct {
		Issuer        string   `json:"issuer"`
		TokenEndpoint string   `json:"token_endpoint"`
		ResponseTypes []string `json:"response_types_supported"`
		GrantTypes    []string `json:"grant_types_supported"`
		AuthMethods   []string `json:"token_endpoint_auth_methods_supported"`
		Anonymous     bool     `json:"pre-authorized_grant_anonymous_access_supported"` //nolint:tagliatelle // the name is that of the standard
	}{id, id + "/openid4vci/token", []string{}, []string{preAuthorized}, []string{"none"}, true})
}

// offer writes a credential offer (4.1.1). The secret in its address grants access to the offer.
func (a *API) offer(w http.ResponseWriter, r *http.Request, i *account.Institution) error {
	w.Header().Set("Cache-Control", "no-store")
	o, err := a.Issuer.Offered(r.Context(), i.ID, r.PathValue("secret"))
	if err != nil {
		return err
	}
	type code struct {
		InputMode   string `json:"input_mode"`
		Length      int    `json:"length"`
		Description string `json:"description"`
	}
	type grant struct {
		Code   string `json:"pre-authorized_code"` //nolint:tagliatelle // the name is that of the standard
		TxCode code   `json:"tx_code"`
	}
	return web.WriteJSON(w, http.StatusOK, struct {
		Issuer         string           `json:"credential_issuer"`
		Configurations []string         `json:"credential_configuration_ids"`
		Grants         map[string]grant `json:"grants"`
	}{
		a.Issuer.ID(i.UUID), issuer.ConfigurationIDs(),
		map[string]grant{preAuthorized: {o.Secret, code{"numeric", issuer.CodeLength, "The code that was mailed to the recipient of the certificate."}}},
	})
}

// token exchanges the codes of an offer for an access token (6.1, 6.2).
func (a *API) token(w http.ResponseWriter, r *http.Request, i *account.Institution) error {
	if err := body.ParseForm(w, r, maxBody); err != nil {
		if fault.Is(err, fault.BadRequest) {
			return &issuer.WalletError{Code: "invalid_request", Description: "The form could not be read."}
		}
		return err
	}
	form := r.PostForm
	switch {
	case form.Get("grant_type") != preAuthorized:
		return &issuer.WalletError{Code: "unsupported_grant_type", Description: "The grant type must be " + preAuthorized + "."}
	case form.Get("pre-authorized_code") == "":
		return &issuer.WalletError{Code: "invalid_request", Description: "The parameter pre-authorized_code is missing."}
	case form.Get("tx_code") == "":
		return &issuer.WalletError{Code: "invalid_request", Description: "The parameter tx_code is missing. The code was mailed to the recipient."}
	}
	// A person may enter the code with spaces.
	token, err := a.Issuer.Redeem(r.Context(), i.ID, form.Get("pre-authorized_code"), strings.ReplaceAll(form.Get("tx_code"), " ", ""))
	if err != nil {
		return err
	}
	return web.WriteJSON(w, http.StatusOK, struct {
		Token   string `json:"access_token"`
		Type    string `json:"token_type"`
		Expires int    `json:"expires_in"`
	}{token, "Bearer", int(issuer.TokenLife.Seconds())})
}

// nonce writes a nonce for a proof (7.2).
func (a *API) nonce(w http.ResponseWriter, _ *http.Request, i *account.Institution) error {
	nonce, err := a.Issuer.NewNonce(i.UUID)
	if err != nil {
		return err
	}
	return web.WriteJSON(w, http.StatusOK, struct {
		Nonce string `json:"c_nonce"`
	}{nonce})
}

// credentialRequest is a credential request (8.2).
type credentialRequest struct {
	Configuration string              `json:"credential_configuration_id"`
	Identifier    string              `json:"credential_identifier"`
	Proofs        map[string][]string `json:"proofs"`
	Encryption    json.RawMessage     `json:"credential_response_encryption"`
}

// credential issues a credential to the holder of a key (8).
func (a *API) credential(w http.ResponseWriter, r *http.Request, i *account.Institution) error {
	g, err := a.Issuer.Granted(r.Context(), i.ID, bearer(r))
	if err != nil {
		return err
	}
	body.Limit(w, r, body.Limits{
		Size: maxBody, TooLarge: fault.New(fault.TooLarge, "The request is too large."), Broken: fault.New(fault.BadRequest, "The request could not be read."),
	})
	raw, err := io.ReadAll(r.Body)
	if err != nil {
		return body.BadForm(err)
	}
	var q credentialRequest
	if err := json.Unmarshal(raw, &q); err != nil {
		return &issuer.WalletError{Code: "invalid_credential_request", Description: "The body is not a valid credential request in JSON."}
	}
	f, err := q.format()
	if err != nil {
		return err
	}
	if len(q.Proofs) != 1 || len(q.Proofs["jwt"]) != 1 {
		return &issuer.WalletError{Code: "invalid_proof", Description: "The request must have exactly one proof, of the type jwt."}
	}
	h, err := a.Issuer.Holder(i, q.Proofs["jwt"][0])
	if err != nil {
		return err
	}
	text, err := a.Issuer.Issue(r.Context(), g, h, f)
	if err != nil {
		return err
	}
	// A credential in JSON-LD is an object. A credential in any other format is a string (A.1.2.3,
	// A.1.1.3, A.3.3).
	value := json.RawMessage(text)
	if f != issuer.FormatVC {
		if value, err = json.Marshal(text); err != nil {
			return err
		}
	}
	type issued struct {
		Credential json.RawMessage `json:"credential"`
	}
	return web.WriteJSON(w, http.StatusOK, struct {
		Credentials []issued `json:"credentials"`
	}{[]issued{{value}}})
}

// format returns the format of the requested credential.
func (q *credentialRequest) format() (issuer.Format, error) {
	switch {
	case q.Identifier != "":
		return "", &issuer.WalletError{Code: "unknown_credential_identifier", Description: "Use credential_configuration_id."}
	case len(q.Encryption) > 0 && string(q.Encryption) != "null":
		return "", &issuer.WalletError{Code: "invalid_encryption_parameters", Description: "Encrypted responses are not supported."}
	}
	f, ok := issuer.FormatOf(q.Configuration)
	if !ok {
		return "", &issuer.WalletError{Code: "unknown_credential_configuration", Description: "The issuer has no such credential configuration."}
	}
	return f, nil
}

// bearer returns the access token of a request (RFC 6750, 2.1), or "".
func bearer(r *http.Request) string {
	scheme, token, _ := strings.Cut(r.Header.Get("Authorization"), " ")
	if !strings.EqualFold(scheme, "Bearer") {
		return ""
	}
	return strings.TrimSpace(token)
}
