package api

import (
	"context"
	"encoding/hex"
	"errors"
	"maps"
	"mime"
	"net/http"
	"slices"

	"github.com/certvault/certvault/internal/cert"
	"github.com/certvault/certvault/internal/fault"
	"github.com/certvault/certvault/internal/token"
	"github.com/certvault/certvault/internal/web"
)

// general is the wire type of a certificate of any source.
type general struct {
	ID               string     `json:"id"`
	ReferenceID      string     `json:"reference_id"`
	CertificateTitle string     `json:"certificate_title"`
	Name             string     `json:"name"`
	Email            string     `json:"email"`
	Status           status     `json:"status"`
	Source           labelled   `json:"source"`
	IssueDate        string     `json:"issue_date"`
	GeneratedAt      *string    `json:"generated_at"`
	BatchID          *string    `json:"batch_id"`
	Batch            *batchName `json:"batch"`
	CustomerID       *int64     `json:"customer_id"`
	Creator          creator    `json:"creator"`
	PDFPath          *string    `json:"pdf_path"`
	ImagePath        *string    `json:"image_path"`
	QRCodePath       string     `json:"qrcode_path"`
	BarcodePath      string     `json:"barcode_path"`
	// TotalSignatures and ApprovedSignatures are absent for a certificate without signatories.
	TotalSignatures    *int        `json:"total_signatures,omitempty"`
	ApprovedSignatures *int        `json:"approved_signatures,omitempty"`
	Signatures         []signature `json:"signatures"`
	CreatedAt          string      `json:"created_at"`
	UpdatedAt          string      `json:"updated_at"`
	ExpiresOn          *string     `json:"expires_on"`
	Expired            bool        `json:"expired"`
	// Replaces is absent if the certificate is not a replacement, and ReplacedBy if it was not replaced.
	Replaces   *replacement `json:"replaces,omitempty"`
	ReplacedBy *replacement `json:"replaced_by,omitempty"`
}

// signature is the wire type of the approval of a signatory.
type signature struct {
	ID                int64   `json:"id"`
	InstitutionUserID int64   `json:"institution_user_id"`
	DisplayName       *string `json:"display_name"`
	Designation       *string `json:"designation"`
	SignatoryIndex    int     `json:"signatory_index"`
	Status            string  `json:"status"`
	ApprovedAt        *string `json:"approved_at"`
}

// sign sets the signatures of a certificate.
func (g *general) sign(list []*cert.Signature) {
	g.Signatures = []signature{}
	if len(list) == 0 {
		return
	}
	total, approved := len(list), 0
	for _, s := range list {
		if s.Status == cert.SignatureApproved {
			approved++
		}
		g.Signatures = append(g.Signatures, signature{
			ID: s.ID, InstitutionUserID: s.UserID, DisplayName: optional(s.Name), Designation: optional(s.Designation), SignatoryIndex: s.Index,
			Status: string(s.Status), ApprovedAt: web.Timestamp(s.ApprovedAt),
		})
	}
	g.TotalSignatures, g.ApprovedSignatures = &total, &approved
}

type batchName struct {
	ID   string `json:"id"`
	Name string `json:"name"`
}

type creator struct {
	Type string `json:"type"`
	ID   *int64 `json:"id"`
	Name string `json:"name"`
}

// generalStatus maps a status of the general interface to the internal statuses.
type generalStatus struct {
	status

	of []cert.Status
}

// generalStatuses has the statuses in the sort order of a list. Only applications, and certificates with
// signatories, can be pending.
var generalStatuses = []generalStatus{
	{status{"failed", "Failed", "The certificate could not be generated. It can be retried."}, []cert.Status{cert.Failed}},
	{status{"generated", "Generated", "The certificate is valid and its PDF can be downloaded."}, []cert.Status{cert.Approved}},
	{status{"pending", "Pending", "The certificate waits for the approval of the institution or of its signatories."}, []cert.Status{"in_review", "pending"}},
	{status{"processing", "Processing", "The certificate is being generated."}, []cert.Status{cert.Processing}},
	{status{"revoked", "Revoked", "The institution has revoked the certificate."}, []cert.Status{cert.Revoked}},
}

// allows reports whether a token may access a certificate: either the token has the permission p
// for certificates of every source, or the certificate is a vault certificate.
func allows(t *token.Token, p token.Permission, c *cert.Certificate) bool {
	return t.Has(p) || c.Source == cert.Vault
}

// findGeneral returns the certificate whose id is in the path. The route has checked that the token has p
// or the permission for vault certificates. If the token does not have p, findGeneral returns only vault
// certificates.
func (a *API) findGeneral(c *call, p token.Permission) (*cert.Certificate, error) {
	found, err := a.find(c)
	if err != nil {
		return nil, err
	}
	if !allows(c.token, p, found) {
		return nil, fault.New(fault.NotFound, "No such certificate.")
	}
	return found, nil
}

func (a *API) generalView(w http.ResponseWriter, c *call) error {
	found, err := a.findGeneral(c, token.CertificateView)
	if err != nil {
		return err
	}
	data, err := a.wireGeneral(c, []*cert.Certificate{found})
	if err != nil {
		return err
	}
	return web.WriteJSON(w, http.StatusOK, recordResponse{Data: data[0]})
}

func (a *API) generalDownload(w http.ResponseWriter, c *call) error {
	found, err := a.findGeneral(c, token.CertificateDownload)
	if err != nil {
		return err
	}
	return a.sendVerified(w, c, found)
}

// credential responds with the credential of a certificate. The certificate may be revoked.
func (a *API) credential(w http.ResponseWriter, c *call) error {
	found, err := a.findGeneral(c, token.CertificateDownload)
	if err != nil {
		return err
	}
	return web.SendCredential(w, c.Request, a.Issuer, found)
}

// sendVerified responds with the verified PDF.
func (a *API) sendVerified(w http.ResponseWriter, c *call, found *cert.Certificate) (err error) {
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

// wireGeneral converts certificates to their wire type.
func (a *API) wireGeneral(c *call, list []*cert.Certificate) ([]*general, error) {
	names, err := a.batchNames(c.Context(), c.institution.ID, list)
	if err != nil {
		return nil, err
	}
	signatures, err := a.signatures(c.Context(), c.institution.ID, list)
	if err != nil {
		return nil, err
	}
	out := make([]*general, len(list))
	for i, item := range list {
		g := &general{
			ID: item.UUID, ReferenceID: item.ReferenceID, CertificateTitle: item.Title, Name: item.FullName, Email: item.Email,
			Status: generalStatusOf(item.Status), Source: sourceOf(item), IssueDate: item.IssueDate,
			GeneratedAt: web.Timestamp(item.ApprovedAt), BatchID: optional(item.BatchID), CustomerID: optional(item.CustomerID),
			Creator:    creator{Type: item.Creator.Type, ID: optional(item.Creator.ID), Name: item.Creator.Name},
			QRCodePath: a.Links.QRCode(item.ReferenceID), BarcodePath: a.Links.Barcode(item.ReferenceID),
			CreatedAt: *web.Timestamp(&item.CreatedAt), UpdatedAt: *web.Timestamp(&item.UpdatedAt),
			ExpiresOn: optional(item.ExpiresOn), Expired: a.Certs.HasExpired(item),
			Replaces: replacementOf(item.Replaces), ReplacedBy: replacementOf(item.ReplacedBy),
		}
		g.sign(signatures[item.ID])
		if name, ok := names[item.BatchID]; ok {
			g.Batch = &batchName{ID: item.BatchID, Name: name}
		}
		if g.PDFPath, g.ImagePath, err = a.assets(item); err != nil {
			return nil, err
		}
		out[i] = g
	}
	return out, nil
}

func generalStatusOf(s cert.Status) status {
	for _, g := range generalStatuses {
		if slices.Contains(g.of, s) {
			return g.status
		}
	}
	return status{Value: string(s)}
}

// signatures maps the ids of those certificates that may have signatories to their signatures.
func (a *API) signatures(ctx context.Context, institutionID int64, list []*cert.Certificate) (map[int64][]*cert.Signature, error) {
	var ids []int64
	for _, c := range list {
		if c.Template != nil {
			ids = append(ids, c.ID)
		}
	}
	if len(ids) == 0 {
		return nil, nil //nolint:nilnil // an empty map
	}
	return a.Certs.Signatures(ctx, institutionID, ids...)
}

// batchNames returns the names of the certificates' batches by batch id.
func (a *API) batchNames(ctx context.Context, institutionID int64, list []*cert.Certificate) (map[string]string, error) {
	ids := map[string]bool{}
	for _, c := range list {
		if c.BatchID != "" {
			ids[c.BatchID] = true
		}
	}
	return a.Batches.Names(ctx, institutionID, slices.Collect(maps.Keys(ids)))
}
