package template

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"slices"
	"time"

	"github.com/certvault/certvault/internal/account"
	"github.com/certvault/certvault/internal/audit"
	"github.com/certvault/certvault/internal/cert"
	"github.com/certvault/certvault/internal/db"
	"github.com/certvault/certvault/internal/design"
	"github.com/certvault/certvault/internal/fault"
	"github.com/certvault/certvault/internal/seal"
)

// drawable is a layout with its base, ready to draw.
type drawable struct {
	base     *design.Base
	template *design.Template
	fonts    []string // digests in hexadecimal
}

// draw draws the base of a layout on the design of v. It does not store the base. The error is
// fault.Invalid with the cause design.Problems if the layout cannot be published.
func (s *Service) draw(ctx context.Context, institutionID int64, v *Version, l *design.Layout) (*drawable, error) {
	fonts, ids, err := s.institutionFonts(ctx, institutionID)
	if err != nil {
		return nil, err
	}
	if problems := l.Check(v.Pages); len(problems) > 0 {
		return nil, cannotPublish(problems)
	}
	file, err := s.load(ctx, v.designKey)
	if err != nil {
		return nil, err
	}
	base, err := design.Publish(&design.Design{PDF: file, Pages: v.Pages}, l, fonts, s.pictures(ctx, institutionID))
	if err != nil {
		return nil, publishError(err)
	}
	t, err := design.Open(base.PDF, base.Plan, l, fonts)
	if err != nil {
		return nil, fmt.Errorf("opening the base of a template: %w", err)
	}
	return &drawable{base, t, ids}, nil
}

// cannotPublish returns the error for a layout that cannot be published.
func cannotPublish(problems design.Problems) error {
	return fault.Wrap(fault.Invalid, "The template has problems.", problems)
}

func publishError(err error) error {
	if problems, ok := errors.AsType[design.Problems](err); ok {
		return cannotPublish(problems)
	}
	if refusal, ok := errors.AsType[*design.Refusal](err); ok {
		return fault.Wrap(fault.Invalid, refusal.Reason, err)
	}
	return fmt.Errorf("publishing a template: %w", err)
}

// Publish publishes the draft of a template, so that certificates can be issued from it. The version that
// was published before is retired. Publish checks that the QR code can be read on certificates with long
// texts. The error is fault.Invalid with the cause design.Problems if the draft cannot be
// published, fault.Conflict if the revision is not the current one, and fault.BadRequest if there is no
// draft or the template is archived.
func (s *Service) Publish(ctx context.Context, inst *account.Institution, uuid string, revision int64) (*Template, error) {
	t, err := s.ByUUID(ctx, inst.ID, uuid)
	switch {
	case err != nil:
		return nil, err
	case t.ArchivedAt != nil:
		return nil, errArchived
	case t.Draft == nil:
		return nil, errNoDraft
	case t.Draft.Revision != revision:
		return nil, errRevision
	}
	ready, err := s.prepared(ctx, inst, t.Draft)
	if err != nil {
		return nil, err
	}
	key := cert.BaseKey(inst.UUID)
	err = s.store(ctx, key, ready.base.PDF, func(tx *db.Tx) error { return s.publishTx(ctx, tx, inst, t.Draft, uuid, key, ready) })
	if err != nil {
		return nil, fmt.Errorf("publishing a template: %w", err)
	}
	return s.ByUUID(ctx, inst.ID, uuid)
}

// prepared draws the base of a draft and checks it with prove.
func (s *Service) prepared(ctx context.Context, inst *account.Institution, v *Version) (*drawable, error) {
	if s.sealer == nil {
		return nil, errUnavailable
	}
	if err := s.designing.Acquire(ctx, 1); err != nil {
		return nil, fmt.Errorf("waiting to publish a template: %w", err)
	}
	defer s.designing.Release(1)
	if problems := checkSignatories(v); len(problems) > 0 {
		return nil, cannotPublish(problems)
	}
	ready, err := s.draw(ctx, inst.ID, v, &v.Layout)
	if err != nil {
		return nil, err
	}
	return ready, s.prove(ctx, inst, v, ready)
}

// prove checks that reference ids fit, and that the QR code can be read on certificates with long texts.
func (s *Service) prove(ctx context.Context, inst *account.Institution, version *Version, d *drawable) error {
	reference, l := cert.WidestReference(inst.Prefix), &version.Layout
	signers := version.signers()
	samples := d.template.Worst()
	if len(samples) == 0 {
		samples = []*design.Values{l.Fill(design.Samples()[0].Values)}
	}
	var code string
	for i := range l.Fields {
		if l.Fields[i].Kind == design.QR {
			code = l.Fields[i].ID
		}
	}
	for _, v := range samples {
		v.Reference, v.Institution, v.Signatories = reference, inst.Name, signers
		if problems := d.template.Check(v); len(problems) > 0 {
			return cannotPublish(problems)
		}
		_, err := s.sealed(ctx, inst, d.template, d.base.PDF, v, false)
		if refusal, ok := errors.AsType[*seal.Refusal](err); ok {
			return cannotPublish(design.Problems{{Field: code, Code: CodeQRNotReadable, Detail: refusal.Reason}})
		}
		if err != nil {
			return fmt.Errorf("proving the QR code of a template: %w", err)
		}
	}
	return nil
}

// sealed returns the PDF of a certificate with the values and the QR code, without a digital signature. If
// trusted is true, Seal checks the QR code only for about one in a hundred reference ids.
func (s *Service) sealed(ctx context.Context, inst *account.Institution, t *design.Template, base []byte, v *design.Values, trusted bool) ([]byte, error) {
	fields, err := t.Draw(v)
	if err != nil {
		return nil, publishError(err)
	}
	sum, state, err := extend(t.State(), fields)
	if err != nil {
		return nil, err
	}
	file := slices.Concat(base, fields)
	page, box := t.QR()
	verified, err := s.sealer.Seal(ctx, seal.Original{
		Name: "template.pdf", Type: seal.PDF, R: bytes.NewReader(file), Size: int64(len(file)), SHA256: sum, State: state,
	}, seal.Stamp{
		ReferenceID: v.Reference, VerifyURL: s.verifyURL(v.Reference), Institution: inst.Name,
		Placement: seal.Placement{Mode: seal.Exact, Page: page, Box: seal.Box(box), Figure: seal.CodeOnly, Trusted: trusted},
	})
	if err != nil {
		return nil, err
	}
	tail, err := io.ReadAll(io.NewSectionReader(verified.Body, 0, verified.Body.Size()))
	if err != nil {
		return nil, fmt.Errorf("reading a sealed certificate: %w", err)
	}
	return append(file, tail...), nil
}

// publishTx publishes a draft. The error is fault.Conflict if the draft has changed since its base was
// drawn.
func (s *Service) publishTx(ctx context.Context, tx *db.Tx, inst *account.Institution, draft *Version, uuid, key string, d *drawable) error {
	now := s.moment()
	t, err := s.lockTx(ctx, tx, inst.ID, uuid)
	switch {
	case err != nil:
		return err
	case t.ArchivedAt != nil:
		return errArchived
	case t.Draft == nil || t.Draft.ID != draft.ID || t.Draft.Revision != draft.Revision:
		return errRevision
	}
	if err := checkFontsTx(ctx, tx, inst.ID, d.fonts); err != nil {
		return err
	}
	if _, err := tx.ExecContext(ctx, `UPDATE template_versions SET state = 'retired', updated_at = $1 WHERE template_id = $2 AND state = 'published'`,
		db.Micros(now), t.ID); err != nil {
		return err
	}
	if err := storeBaseTx(ctx, tx, draft.ID, key, d, now); err != nil {
		return err
	}
	if _, err := tx.ExecContext(ctx, `UPDATE templates SET updated_at = $1 WHERE id = $2`, db.Micros(now), t.ID); err != nil {
		return err
	}
	return recordTx(ctx, tx, audit.TemplatePublished, inst.ID, uuid, t.Name, now, audit.Detail{"version": draft.Number})
}

func storeBaseTx(ctx context.Context, tx *db.Tx, versionID int64, key string, d *drawable, now time.Time) error {
	fonts, err := json.Marshal(append([]string{}, d.fonts...))
	if err != nil {
		return fmt.Errorf("encoding the fonts of a template: %w", err)
	}
	sum := d.template.SHA256()
	_, err = tx.ExecContext(ctx, `
		UPDATE template_versions SET state = 'published', fonts = $1, base_key = $2, base_size = $3, base_sha256 = $4, plan = $5, published_at = $6,
			published_by = $7, updated_at = $6 WHERE id = $8`,
		string(fonts), key, len(d.base.PDF), sum[:], string(d.base.Plan), db.Micros(now), audit.ActorOf(ctx).Name, versionID)
	return err
}
