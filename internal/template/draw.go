package template

import (
	"bytes"
	"container/list"
	"context"
	"crypto/sha256"
	"database/sql"
	"encoding"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"sync"

	"golang.org/x/sync/singleflight"

	"github.com/certvault/certvault/internal/cert"
	"github.com/certvault/certvault/internal/design"
	"github.com/certvault/certvault/internal/seal"
)

// values are the values of a certificate from a template that are stored as JSON. Other values, such as the
// name and the title, have columns of their own in the database.
type values struct {
	// Institution is the name of the institution when the certificate was issued.
	Institution string            `json:"institution"`
	Columns     map[string]string `json:"columns,omitempty"`
}

// ColumnsOf maps the names of the columns of a certificate to their values. It returns nil if the
// certificate is not from a template or its values were erased.
func ColumnsOf(c *cert.Certificate) (map[string]string, error) {
	if c.Template == nil || c.Template.Values == nil {
		return nil, nil //nolint:nilnil // an empty map
	}
	var stored values
	if err := json.Unmarshal(c.Template.Values, &stored); err != nil {
		return nil, fmt.Errorf("reading the values of a certificate: %w", err)
	}
	return stored.Columns, nil
}

// Draw draws the original of a certificate. It implements cert.Drawer.
func (s *Service) Draw(ctx context.Context, c *cert.Certificate) (*cert.Drawn, error) {
	if c.Template == nil {
		return nil, fmt.Errorf("the certificate %s is not made from a template", c.UUID)
	}
	o, err := s.open(ctx, c.InstitutionID, c.Template.VersionID)
	if err != nil {
		return nil, err
	}
	v, err := s.valuesOf(ctx, o.version, c)
	if err != nil {
		return nil, err
	}
	fields, err := o.template.Draw(v)
	if problems, ok := errors.AsType[design.Problems](err); ok {
		return nil, refusal(problems[0], &o.version.Layout)
	}
	if err != nil {
		return nil, fmt.Errorf("drawing a certificate: %w", err)
	}
	d := &cert.Drawn{Base: bytes.NewReader(o.base), BaseSize: int64(len(o.base)), Fields: fields, Size: int64(len(o.base) + len(fields)), Trusted: true, Clean: o.template.Clean()}
	var box [4]float64
	d.Page, box = o.template.QR()
	d.Box = seal.Box(box)
	d.SHA256, d.State, err = extend(o.template.State(), fields)
	return d, err
}

// valuesOf returns the values with which a certificate of a version is drawn.
func (s *Service) valuesOf(ctx context.Context, v *Version, c *cert.Certificate) (*design.Values, error) {
	var stored values
	if err := json.Unmarshal(c.Template.Values, &stored); err != nil {
		return nil, fmt.Errorf("reading the values of a certificate: %w", err)
	}
	signers, err := s.signersOf(ctx, v, c)
	if err != nil {
		return nil, err
	}
	return &design.Values{
		Name: c.FullName, Title: c.Title, Reference: c.ReferenceID, Details: c.Details, IssueDate: c.IssueDate,
		Institution: stored.Institution, Columns: stored.Columns, Signatories: signers, ExpiresOn: c.ExpiresOn,
	}, nil
}

// extend returns the SHA-256 digest of a base followed by a tail, and the state of the hash after the
// tail. The parameter state is the state of the hash after the base.
func extend(state, tail []byte) (sum [sha256.Size]byte, next []byte, err error) {
	h := sha256.New()
	restored, ok := h.(interface {
		encoding.BinaryUnmarshaler
		encoding.BinaryMarshaler
	})
	if !ok {
		return sum, nil, errors.New("SHA-256 has no state")
	}
	if err := restored.UnmarshalBinary(state); err != nil {
		return sum, nil, fmt.Errorf("continuing a digest: %w", err)
	}
	h.Write(tail)
	if next, err = restored.MarshalBinary(); err != nil {
		return sum, nil, fmt.Errorf("storing the state of a digest: %w", err)
	}
	h.Sum(sum[:0])
	return sum, next, nil
}

// refusal returns the error for a certificate whose values cannot be drawn. They were checked before the
// certificate was issued, so a problem means that something changed later, such as the fonts or the name of
// a signatory.
func refusal(p design.Problem, l *design.Layout) error {
	name := fieldName(l, p.Field)
	reason := map[string]string{
		design.CodeMissingCharacters: design.MissingCharacters(p.Detail),
		design.CodeNoRoom:            "The text of the field " + name + " does not fit at its smallest size.",
		design.CodeValueMissing:      "The field " + name + " requires a value for " + p.Detail + ".",
	}[p.Code]
	if reason == "" {
		reason = "The field " + name + " cannot be drawn: " + strings.ReplaceAll(p.Code, "_", " ") + "."
	}
	return &seal.Refusal{Code: p.Code, Reason: reason}
}

// fieldName returns the label of a field, or its id if it has no label, in quotation marks.
func fieldName(l *design.Layout, id string) string {
	for i := range l.Fields {
		if f := &l.Fields[i]; f.ID == id && f.Label != "" {
			return "“" + f.Label + "”"
		}
	}
	return "“" + id + "”"
}

// open is a published or retired version that is ready to draw. Several goroutines can use it.
type open struct {
	version  *Version
	template *design.Template
	base     []byte
	// signers are the current signatories, with a sample instead of each signature.
	signers []design.Signatory
}

// cost returns the approximate memory of an open version in bytes.
func (o *open) cost() int { return len(o.base) + openCost }

const (
	// openCost is the approximate memory of an open version without its base, in bytes.
	openCost = 1 << 20
	// maxOpen is the maximum memory of the cache of open versions, in bytes.
	maxOpen = 96 << 20
)

// opened is a cache of open versions. If it is full, it removes the versions that were used least
// recently.
type opened struct {
	flight singleflight.Group

	mu    sync.Mutex
	byID  map[int64]*list.Element
	order list.List // of *open, the most recently used at the front
	size  int
}

func (o *opened) get(id int64) *open {
	o.mu.Lock()
	defer o.mu.Unlock()
	e := o.byID[id]
	if e == nil {
		return nil
	}
	o.order.MoveToFront(e)
	found, _ := e.Value.(*open)
	return found
}

func (o *opened) put(v *open) {
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.byID == nil {
		o.byID = map[int64]*list.Element{}
	}
	if o.byID[v.version.ID] != nil {
		return
	}
	o.byID[v.version.ID] = o.order.PushFront(v)
	o.size += v.cost()
	for o.size > maxOpen && o.order.Len() > 1 {
		last, _ := o.order.Remove(o.order.Back()).(*open)
		delete(o.byID, last.version.ID)
		o.size -= last.cost()
	}
}

// open returns a published or retired version of an institution, ready to draw.
func (s *Service) open(ctx context.Context, institutionID, versionID int64) (*open, error) {
	if o := s.opened.get(versionID); o != nil {
		return s.current(ctx, o, institutionID)
	}
	// Workers that need the same version wait for one call of read. This call must continue if the
	// context of the worker that made it is canceled.
	result := s.opened.flight.DoChan(fmt.Sprint(versionID), func() (any, error) {
		o, err := s.read(context.WithoutCancel(ctx), versionID)
		if err == nil {
			s.opened.put(o)
		}
		return o, err
	})
	select {
	case <-ctx.Done():
		return nil, fmt.Errorf("opening a template: %w", ctx.Err())
	case r := <-result:
		o, _ := r.Val.(*open)
		if r.Err != nil {
			return nil, fmt.Errorf("opening a template: %w", r.Err)
		}
		return s.current(ctx, o, institutionID)
	}
}

// current returns o with its current signatories, or fault.NotFound if it belongs to another institution.
func (s *Service) current(ctx context.Context, o *open, institutionID int64) (*open, error) {
	if o.version.institutionID != institutionID {
		return nil, errNotFound
	}
	if len(o.version.Signatories) == 0 {
		return o, nil
	}
	version := *o.version
	if err := addSignatories(ctx, s.db, []*Version{&version}); err != nil {
		return nil, err
	}
	return &open{version: &version, template: o.template, base: o.base, signers: version.signers()}, nil
}

// read reads a published or retired version from the database and from the file store.
func (s *Service) read(ctx context.Context, versionID int64) (*open, error) {
	if err := s.designing.Acquire(ctx, 1); err != nil {
		return nil, err
	}
	defer s.designing.Release(1)
	found, err := versions(ctx, s.db, `id = $1 AND state IN ('published', 'retired')`, versionID)
	if err != nil {
		return nil, err
	}
	if len(found) == 0 {
		return nil, errNotFound
	}
	o := &open{version: found[0]}
	var plan sql.NullString
	var digest []byte
	if err := s.db.QueryRowContext(ctx, `SELECT plan, base_sha256 FROM template_versions WHERE id = $1`, versionID).Scan(&plan, &digest); err != nil {
		return nil, err
	}
	fonts, err := s.versionFonts(ctx, o.version)
	if err != nil {
		return nil, err
	}
	if o.base, err = s.load(ctx, o.version.baseKey); err != nil {
		return nil, err
	}
	if err := checkDigest(o.base, digest); err != nil {
		return nil, err
	}
	o.template, err = design.Open(o.base, []byte(plan.String), &o.version.Layout, fonts)
	return o, err
}
