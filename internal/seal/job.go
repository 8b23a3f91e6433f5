package seal

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"math"
	"slices"

	"github.com/certvault/certvault/internal/pades"
	"github.com/certvault/certvault/internal/pdf"
	"github.com/certvault/certvault/internal/pdfium"
)

// job adds one stamp to one PDF.
type job struct {
	sealer        *Sealer
	stamp         Stamp
	r             io.ReaderAt
	size          int64
	name          string
	state         []byte    // hash state of crypto/sha256 after the last byte of r; may be nil
	figures       []*figure // the shapes of the stamp on a page
	strips        []*figure // the shapes of the stamp in a strip
	sheet         *Sheet    // set by loadSheet; nil for a page with only the stamp
	trusted       bool      // an earlier stamp at the exact place was readable, so try does not call prove
	stripProved   bool      // the stamp in the strip has already been proved to be readable
	slow          bool      // rendering a page timed out
	exact         Box       // the place in the box that was requested; zero if the box is not usable
	coversContent bool      // exact is not blank
	recipient     string    // the name to find in the text of the document; "" if there is nothing to find

	doc      *pdf.Document
	source   pdfium.Source // the document for the renderer, without a stamp
	findings pdf.Findings
	page     *pdf.Page // the page to stamp
	frame    frame
	notices  []Notice
	original pades.Original
}

// attempt is one way to place the stamp.
type attempt struct {
	mode       Mode
	annotation bool // use an annotation instead of page content
	page       *pdf.Page
	frame      frame // frame of the page
	spot       spot  // unused by Strip and Appended, which compute the place
	earlier    bool  // spot is in a place of EarlierLayouts
}

// open reads the document, finds the page to stamp, and prepares the source for the renderer and
// the notices about the document.
func (j *job) open() error {
	doc, err := pdf.Open(j.r, j.size)
	if err != nil {
		return pdfError(err)
	}
	pages := doc.PageCount()
	j.doc, j.findings = doc, doc.Inspect()
	if err := doc.Err(); err != nil {
		return pdfError(err)
	}
	j.notices = notices(doc, j.findings)
	number := max(1, j.stamp.Placement.Page)
	if number > pages {
		number = 1
		j.note("page_missing", "The PDF does not have the chosen page; the first page was used.")
	}
	if j.page, err = doc.Page(number - 1); err != nil {
		return pdfError(err)
	}
	j.frame = newFrame(j.page.Geometry())
	if err := doc.AvoidReferenced(); err != nil {
		return pdfError(err)
	}
	j.source = pdfium.Source{Head: j.r, HeadSize: j.size}
	if doc.FaultyPageTree() {
		// The pages must have the same numbers as in the verified PDF.
		if j.source.Tail, err = doc.Update().Bytes(); err != nil {
			return pdfError(err)
		}
	}
	return nil
}

// run tries the possible placements in turn until the stamp is readable. A signed file that allows
// no suitable change gets a cover. If no placement is possible, the error is a *Refusal.
func (j *job) run(ctx context.Context) (*Verified, error) {
	if err := j.open(); err != nil {
		return nil, err
	}
	if reason := j.closed(); reason != "" {
		return j.cover(ctx, reason)
	}
	v, err := j.tryAll(ctx, j.remembered())
	if errors.Is(err, errNotReadable) {
		var attempts []attempt
		if attempts, err = j.attempts(ctx); err != nil {
			return nil, err
		}
		v, err = j.tryAll(ctx, attempts)
	}
	switch {
	case err == nil:
		j.addPlacementNotices(v)
		return v, nil
	case !errors.Is(err, errNotReadable):
		return nil, err
	case j.signed():
		return j.cover(ctx, "The PDF is signed and has no blank place for the QR code.")
	}
	return nil, refuse("not_readable", "The PDF cannot be drawn, so the QR code on it cannot be checked. Save the PDF again with another program, and use the new file.")
}

// closed returns the reason why a signed file allows no change, or "" if it allows one.
func (j *job) closed() string {
	switch {
	case j.signed() && j.findings.DocMDP != 0 && j.findings.DocMDP < 3:
		return "The signatures of the PDF do not allow the QR code to be added."
	case j.signed() && j.doc.FaultyPageTree():
		return "The page tree of the PDF is damaged, and the signature allows no repair."
	}
	return ""
}

// tryAll returns the result of the first attempt whose stamp is readable.
func (j *job) tryAll(ctx context.Context, attempts []attempt) (*Verified, error) {
	for _, a := range attempts {
		if j.skips(a) {
			continue
		}
		if v, err := j.try(ctx, a); !errors.Is(err, errNotReadable) {
			return v, err
		}
	}
	return nil, errNotReadable
}

// skips reports whether an attempt is not tried. After a timeout, only an appended page is rendered, because
// that is fast.
func (j *job) skips(a attempt) bool { return j.slow && a.mode != Appended }

func (j *job) signed() bool { return len(j.findings.Signatures) > 0 || j.findings.UsageRights }

func (j *job) note(code, message string) { j.notices = append(j.notices, Notice{code, message}) }

// addPlacementNotices adds the notices about the placement, and sets the notices of v.
func (j *job) addPlacementNotices(v *Verified) {
	requested := j.stamp.Placement.Mode
	if requested == "" {
		requested = Auto
	}
	switch {
	case requested == Exact && v.Box == j.exact: // as content of the page or as an annotation
		if j.coversContent {
			j.note("covers_content", "The chosen position was not empty; the QR code covers some content.")
		}
	case v.Placement == requested, requested == Auto && v.Placement != Strip && v.Placement != Appended:
	case v.Placement == Annotation && v.Page == j.page.Index+1 && j.blankMode() != Auto: // in the corner that was requested
	case v.Placement == Strip:
		j.note("placed_in_strip", "The QR code could not be placed on the page; it is in a strip below the page.")
	case v.Placement == Appended:
		j.note("placed_on_appended_page", "The QR code could not be placed on the page; it is on an extra page at the end.")
	default:
		j.note("placed_elsewhere", "The QR code could not be placed at the chosen position.")
	}
	v.Notices = j.notices
}

// maxPlaces is the maximum number of blank places to try on a page.
const maxPlaces = 2

// attempts returns the placements to try, best first.
func (j *job) attempts(ctx context.Context) ([]attempt, error) {
	if j.signed() {
		return j.annotations(ctx)
	}
	mode := j.stamp.Placement.Mode
	if mode == "" {
		mode = Auto
	}
	strip := attempt{mode: Strip, page: j.page, frame: j.frame}
	appended := attempt{mode: Appended, page: j.page, frame: j.frame}
	switch mode {
	case Strip:
		return []attempt{strip, appended}, nil
	case Appended:
		return []attempt{appended}, nil
	case Exact:
		if s, ok := j.fit(j.stamp.Placement.Box); ok {
			j.exact = s.box(j.frame)
			if err := j.checkCovered(ctx, s); err != nil {
				return nil, err
			}
			exact := attempt{mode: Exact, page: j.page, frame: j.frame, spot: s}
			annotation := attempt{mode: Annotation, annotation: true, page: j.page, frame: j.frame, spot: s}
			return []attempt{exact, annotation, strip, appended}, nil
		}
		j.note("box_not_usable", "The chosen position is not on the page.")
		mode = Auto
	case Auto, TopLeft, TopRight, BottomLeft, BottomRight:
	case Annotation, Cover:
		mode = Auto // these are results, not requests
	}
	p, err := j.newPageSearch(ctx, j.page, j.frame)
	if err != nil {
		if errors.Is(err, pdfium.ErrPassword) {
			return nil, pdfError(pdf.ErrPassword)
		}
		if isPermanent(ctx, err) {
			// If a page cannot be rendered, the result cannot be checked: leave the page unchanged.
			j.note("page_not_rendered", "The page could not be drawn, so no position on it was chosen.")
			return []attempt{appended}, nil
		}
		return nil, err
	}
	defer p.close(ctx)
	spots, err := p.places(ctx, j.frame.sides(), mode, maxPlaces)
	if err != nil {
		return nil, err
	}
	var out []attempt
	for _, s := range spots {
		out = append(out, attempt{mode: mode, page: j.page, frame: j.frame, spot: s})
	}
	if len(spots) > 0 {
		out = append(out, attempt{mode: Annotation, annotation: true, page: j.page, frame: j.frame, spot: spots[0]})
	}
	return append(out, strip, appended), nil
}

// maxSignedPages is the number of pages at the start of a signed file that are searched for a blank
// place, besides the requested page.
const maxSignedPages = 5

// annotations returns attempts at the blank places of a signed file. An annotation may be added to a
// signed file, but its pages must not be enlarged. annotations searches the requested page first, and
// then the first pages until a page has a blank place. The stamp may be smaller than usual.
func (j *job) annotations(ctx context.Context) ([]attempt, error) {
	var out []attempt
	for i := range min(j.doc.PageCount(), maxSignedPages) + 1 {
		page := j.page
		if i > 0 {
			other, err := j.doc.Page(i - 1)
			if err != nil {
				continue
			}
			page = other
		}
		f := newFrame(page.Geometry())
		spots, err := j.blankPlaces(ctx, page, f)
		if isPermanent(ctx, err) {
			continue
		}
		if err != nil {
			return nil, err
		}
		for _, s := range spots {
			out = append(out, attempt{mode: Annotation, annotation: true, page: page, frame: f, spot: s})
		}
		if len(out) > 0 {
			break
		}
	}
	return out, nil
}

// muchSmaller is the ratio of the sides of two QR codes below which fit chooses the larger QR code and
// not the shape with more text.
const muchSmaller = 0.75

// fit returns the place in a box for one shape of the stamp. It prefers a shape with more text, unless
// the QR code of another shape is much larger in the box, or the QR code would be smaller than minSide. It
// returns false if no shape fits.
func (j *job) fit(b Box) (spot, bool) {
	var best spot
	for _, fig := range j.figures {
		s, ok := j.frame.within(fig, b)
		if ok && (s.scale*muchSmaller > best.scale || best.side() < minSide && s.scale > best.scale) {
			best = s
		}
	}
	return best, best.scale > 0
}

// blankPlaces returns the blank places on a page of a signed file.
func (j *job) blankPlaces(ctx context.Context, page *pdf.Page, f frame) ([]spot, error) {
	p, err := j.newPageSearch(ctx, page, f)
	if err != nil {
		return nil, err
	}
	defer p.close(ctx)
	return p.places(ctx, j.sides(f), j.blankMode(), maxPlaces)
}

// blankMode returns the requested corner, or Auto if the requested mode is not a corner.
func (j *job) blankMode() Mode {
	switch mode := j.stamp.Placement.Mode; mode {
	case TopLeft, TopRight, BottomLeft, BottomRight:
		return mode
	case "", Auto, Exact, Strip, Appended, Annotation, Cover:
	}
	return Auto
}

// sides returns the sides of the QR code to try in blank places, largest first. The stamp may be smaller
// on a page of a signed file.
func (j *job) sides(f frame) []float64 {
	if j.signed() {
		return append(f.sides(), minSignedSide)
	}
	return f.sides()
}

// checkCovered records whether a stamp at an exact place covers content of the page. If the page
// cannot be rendered, checkCovered records nothing.
func (j *job) checkCovered(ctx context.Context, s spot) error {
	covers, err := j.covers(ctx, s)
	if isPermanent(ctx, err) {
		return nil
	}
	j.coversContent = covers
	return err
}

// covers reports whether a stamp at a place covers content of the page.
func (j *job) covers(ctx context.Context, s spot) (bool, error) {
	p, err := j.newPageSearch(ctx, j.page, j.frame)
	if err != nil {
		return false, err
	}
	defer p.close(ctx)
	return p.covers(ctx, s)
}

// remembered returns an attempt at the first place of EarlierLayouts that is for this page size, is large
// enough and is not on an annotation. It returns nil if there is no such place, if the file is signed, or
// if the requested mode is not Auto. No search is needed: the picture that proves that the stamp is
// readable also proves that the place was blank.
func (j *job) remembered() []attempt {
	p := j.stamp.Placement
	if j.signed() || p.Mode != "" && p.Mode != Auto {
		return nil
	}
	w, h := wholePoints(j.frame.width), wholePoints(j.frame.height)
	boxes := annotationBoxes(j.doc, j.page, j.frame)
	for _, l := range p.EarlierLayouts {
		if l.Width != w || l.Height != h || w == 0 || h == 0 {
			continue
		}
		s, ok := j.fit(l.Box)
		if !ok || s.side() < minSide-0.1 || slices.ContainsFunc(boxes, s.box(j.frame).overlaps) {
			continue
		}
		s.transparent = true
		return []attempt{{mode: Auto, page: j.page, frame: j.frame, spot: s, earlier: true}}
	}
	return nil
}

func wholePoints(v float64) int { return int(math.Round(v)) }

// errNotReadable reports that an attempt did not produce a readable stamp.
var errNotReadable = errors.New("the stamp is not readable")

// try builds the update for an attempt, checks the stamp in the rendered page and signs the update.
func (j *job) try(ctx context.Context, a attempt) (*Verified, error) {
	if a.mode == Appended {
		if err := j.loadSheet(ctx); err != nil {
			return nil, err
		}
	}
	p, err := j.place(a, documentMetadata)
	if err == nil && len(p.tail)-p.signature() > maxTail {
		p, err = j.place(a, pageMetadata)
	}
	switch {
	case errors.Is(err, pdf.ErrFilter), errors.Is(err, pdf.ErrDamaged), errors.Is(err, errViewersStop):
		return nil, fmt.Errorf("%w: %w", errNotReadable, err)
	case errors.Is(err, pades.ErrKey):
		return nil, err
	case err != nil:
		return nil, pdfError(err)
	}
	if !j.trusted && (!j.stripProved || a.mode != Strip) {
		src := pdfium.Source{Head: j.r, HeadSize: j.size, Tail: p.tail}
		if err := j.prove(ctx, src, p); err != nil {
			return nil, err
		}
	}
	if err := j.complete(ctx, a, &p); err != nil {
		return nil, err
	}
	v := &Verified{Placement: a.mode, Page: p.number, Box: p.spot.box(p.frame)}
	v.Body = io.NewSectionReader(bytes.NewReader(p.tail), 0, int64(len(p.tail)))
	// An earlier place stays as it is. The stamp may be smaller, because its reference id is wider, and with
	// the place of each stamp for the next one, the stamps would become smaller and smaller.
	if a.mode != Strip && a.mode != Appended && p.number == 1 && !a.earlier {
		v.Layout = Layout{wholePoints(p.frame.width), wholePoints(p.frame.height), v.Box}
	}
	return v, nil
}

// maxTail is the maximum length in bytes, without the signature, of a tail that rewrites the
// document's metadata: about 5,500 bytes for the stamp and 3,000 for other objects. If the tail is longer,
// the stamp is described in the metadata of the page instead.
const maxTail = 8500

// stampedUpdate is an update that contains the stamp.
type stampedUpdate struct {
	tail   []byte
	number int // page number, from 1
	frame  frame
	spot   spot

	metadata metadataPlace
	pending  *pades.Pending // nil without a signature
}

// signature returns the approximate size of the signature in the tail.
func (p *stampedUpdate) signature() int {
	if p.pending == nil {
		return 0
	}
	return p.pending.Size() + fieldSize
}

// place builds the update for one attempt. where selects the metadata that describes the stamp. The
// metadata of a signed file stays unchanged.
func (j *job) place(a attempt, where metadataPlace) (stampedUpdate, error) {
	e := &edit{doc: j.doc, update: j.doc.Update(), stamp: j.stamp, clean: j.trusted && j.stamp.Placement.Clean}
	p := stampedUpdate{number: a.page.Index + 1, frame: a.frame, spot: a.spot, metadata: where}
	if !j.signed() {
		e.disarm(j.findings)
		if err := e.metadata(where, a.page); err != nil {
			return p, err
		}
	}
	var err error
	switch {
	case a.mode == Strip:
		p.frame, p.spot, err = e.strip(a.page, a.frame, j.strips)
	case a.mode == Appended:
		p.frame, p.spot, err = e.appended(a.frame, j)
		p.number = j.doc.PageCount() + 1
	case a.annotation:
		e.annotation(a.page, a.frame, a.spot)
	default:
		err = e.content(a.page, a.frame, a.spot)
	}
	if err != nil {
		return p, err
	}
	if p.pending, err = j.prepare(e.update, j.doc, j.findings, a.page); err != nil {
		return p, err
	}
	p.tail, err = e.update.Bytes()
	return p, err
}
