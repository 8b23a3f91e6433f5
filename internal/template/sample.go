package template

import (
	"bytes"
	"context"
	"errors"
	"fmt"

	"github.com/certvault/certvault/internal/account"
	"github.com/certvault/certvault/internal/batch"
	"github.com/certvault/certvault/internal/cert"
	"github.com/certvault/certvault/internal/design"
	"github.com/certvault/certvault/internal/fault"
	"github.com/certvault/certvault/internal/seal"
)

const (
	// sampleMark is the text across the pages of a sample.
	sampleMark = "SAMPLE"
	// minPicture and maxPicture limit the longer side of a picture in pixels.
	minPicture, maxPicture = 64, 2400
)

// Page draws a page of the design of a template as PNG, without fields. The design is that of the draft,
// or of the published version if there is no draft. Pages count from 1, and side is the longer side in
// pixels. The error is fault.NotFound if there is no such template or page.
func (s *Service) Page(ctx context.Context, institutionID int64, uuid string, page, side int) ([]byte, error) {
	v, err := s.latest(ctx, institutionID, uuid, page)
	if err != nil {
		return nil, err
	}
	release, err := s.acquire(ctx)
	if err != nil {
		return nil, err
	}
	defer release()
	file, err := s.load(ctx, v.designKey)
	if err != nil {
		return nil, err
	}
	return s.render(ctx, file, page, side)
}

// latest returns the draft of a template, or the published version if there is no draft. The error is
// fault.NotFound if there is no such template or page.
func (s *Service) latest(ctx context.Context, institutionID int64, uuid string, page int) (*Version, error) {
	t, err := s.ByUUID(ctx, institutionID, uuid)
	if err != nil {
		return nil, err
	}
	v := t.Latest()
	if page < 1 || page > len(v.Pages) {
		return nil, errNoPage
	}
	return v, nil
}

// acquire is like acquireMemory, but returns errUnavailable if the vault cannot draw.
func (s *Service) acquire(ctx context.Context) (release func(), err error) {
	if s.sealer == nil {
		return nil, errUnavailable
	}
	return s.acquireMemory(ctx)
}

// render draws a page of a PDF as PNG.
func (s *Service) render(ctx context.Context, file []byte, page, side int) ([]byte, error) {
	picture, err := s.sealer.Page(ctx, bytes.NewReader(file), int64(len(file)), page, min(max(side, minPicture), maxPicture))
	if refusal, ok := errors.AsType[*seal.Refusal](err); ok {
		return nil, fault.Wrap(fault.Invalid, refusal.Reason, err)
	}
	if err != nil {
		return nil, fmt.Errorf("drawing a page of a template: %w", err)
	}
	return picture, nil
}

// Shape sets the texts of the fields of a layout in the fonts of the institution. The results are in the
// order of the fields. The result of a field that is not a text is empty.
func (s *Service) Shape(ctx context.Context, institutionID int64, l *design.Layout, v design.Values) ([]design.Shaped, error) {
	fonts, _, err := s.institutionFonts(ctx, institutionID)
	if err != nil {
		return nil, err
	}
	shaped := make([]design.Shaped, len(l.Fields))
	for i := range l.Fields {
		if err := ctx.Err(); err != nil {
			return nil, fmt.Errorf("shaping the fields of a template: %w", err)
		}
		shaped[i] = design.Shape(&l.Fields[i], l, &v, fonts)
	}
	return shaped, nil
}

// Picture draws a page of a certificate with values as PNG, marked as a sample. If l is nil, the layout
// is that of the draft, or of the published version if there is no draft. The error is fault.Invalid
// with the cause design.Problems if the layout or the values cannot be drawn, and fault.NotFound if
// there is no such template or page.
func (s *Service) Picture(ctx context.Context, inst *account.Institution, uuid string, l *design.Layout, v design.Values, page, side int) ([]byte, error) {
	version, err := s.latest(ctx, inst.ID, uuid, page)
	if err != nil {
		return nil, err
	}
	release, err := s.acquire(ctx)
	if err != nil {
		return nil, err
	}
	defer release()
	if l == nil {
		l = &version.Layout
	}
	d, err := s.draw(ctx, inst.ID, version, l)
	if err != nil {
		return nil, err
	}
	v.Institution, v.Signatories = inst.Name, version.signers()
	return s.drawSample(ctx, inst, d.template, d.base.PDF, l.Fill(v), page, side)
}

// drawSample draws a page of a certificate with values, marked as a sample. The reference id and the QR
// code look like those of a certificate, but no certificate can have this reference id.
func (s *Service) drawSample(ctx context.Context, inst *account.Institution, t *design.Template, base []byte, v *design.Values, page, side int) ([]byte, error) {
	v.Reference = cert.SampleReference(inst.Prefix)
	file, err := s.sealed(ctx, inst, t, base, v, true)
	if _, refused := errors.AsType[*seal.Refusal](err); refused {
		// The QR code cannot be drawn at its place, so the sample has none. Publish reports this problem.
		file, err = t.Sample(base, v, sampleMark)
	} else if err == nil {
		file, err = t.MarkSample(file, sampleMark)
	}
	if err != nil {
		return nil, publishError(err)
	}
	return s.render(ctx, file, page, side)
}

// Preview returns a PDF that shows how a certificate from the published version would look, marked as a
// sample. It has no reference id, no QR code and no digital signature. The errors are those of Issue for
// one entry, but the entry needs no address, and the certificate may exist already.
func (s *Service) Preview(ctx context.Context, inst *account.Institution, uuid string, e Entry) ([]byte, error) {
	o, err := s.published(ctx, inst.ID, uuid)
	if err != nil {
		return nil, err
	}
	if e.Email == "" {
		e.Email = "sample@example.org"
	}
	text, problems := o.checkEntry(0, &e, inst, cert.WidestReference(inst.Prefix), cert.Today(s.now()))
	if err := batch.Problems(problems).Err(); err != nil {
		return nil, err
	}
	file, err := o.template.Sample(o.base, &design.Values{
		Name: text.FullName, Title: text.Title, Details: text.Details, IssueDate: text.IssueDate, Institution: inst.Name, Columns: e.Values,
		Signatories: o.signers, ExpiresOn: text.ExpiresOn,
	}, sampleMark)
	if err != nil {
		return nil, publishError(err)
	}
	return file, nil
}

// CertificatePicture draws a page of a certificate as PNG, marked as a sample, so that a signatory can
// see the certificate before approving it. The picture shows a sample instead of each signature, and no
// reference id or QR code. The error is fault.BadRequest if the certificate is not made from a template or
// its values were deleted, and fault.NotFound if it has no such page.
func (s *Service) CertificatePicture(ctx context.Context, c *cert.Certificate, page, side int) ([]byte, error) {
	if c.Template == nil || c.Template.Values == nil {
		return nil, fault.New(fault.BadRequest, "This certificate is not from a template, or its values were deleted.")
	}
	o, err := s.open(ctx, c.InstitutionID, c.Template.VersionID)
	if err != nil {
		return nil, err
	}
	if page < 1 || page > len(o.version.Pages) {
		return nil, errNoPage
	}
	v, err := s.valuesOf(ctx, o.version, c)
	if err != nil {
		return nil, err
	}
	for i := range v.Signatories {
		v.Signatories[i].Picture = design.SampleSignature()
	}
	release, err := s.acquire(ctx)
	if err != nil {
		return nil, err
	}
	defer release()
	file, err := o.template.Sample(o.base, v, sampleMark)
	if err != nil {
		return nil, publishError(err)
	}
	return s.render(ctx, file, page, side)
}

// Thumbnail draws the first page of a certificate from the published version of a template as PNG, with
// sample values. The errors are those of Usable.
func (s *Service) Thumbnail(ctx context.Context, inst *account.Institution, uuid string, side int) ([]byte, error) {
	o, err := s.published(ctx, inst.ID, uuid)
	if err != nil {
		return nil, err
	}
	release, err := s.acquire(ctx)
	if err != nil {
		return nil, err
	}
	defer release()
	v := design.Samples()[0].Values
	v.Institution, v.Signatories = inst.Name, o.signers
	if title := o.version.Layout.Title; title != "" {
		v.Title = title
	}
	return s.drawSample(ctx, inst, o.template, o.base, o.version.Layout.Fill(v), 1, side)
}
