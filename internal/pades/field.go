package pades

import (
	"bytes"
	"encoding/hex"
	"fmt"
	"strconv"
	"time"

	"github.com/certvault/certvault/internal/pdf"
)

// Statement is the data that the signer states in the signature dictionary.
type Statement struct {
	// Name is the name of the signer, and Reason is the reason for signing.
	// Either may be empty.
	Name, Reason string
	// Time is the signing time according to the signer's clock.
	Time time.Time
	// Original is the file from which the signed file was made.
	Original Original
}

// Form describes how the signed file contains the original.
type Form string

const (
	// Prefix means that the file begins with the original; an incremental
	// update follows.
	Prefix Form = "prefix"
	// Stream means that the original is the unchanged data of a stream: an
	// attachment, or an image that was copied.
	Stream Form = "stream"
	// Source means that the file was made from the original but does not
	// contain it.
	Source Form = "source"
)

// Original is the private entry /Certvault of a signature dictionary, which links
// the signed file to the uploaded file. The entry is in the signature dictionary
// and not in the catalog, where a later revision could replace it. The entry uses
// names instead of strings, because names are not encrypted:
//
//	/Certvault <</Form/Prefix /Length 20971 /SHA256/0a1b... /ReferenceID/NWU-...>>
type Original struct {
	Form Form
	// Length is the length of the original in bytes.
	Length int64
	// SHA256 is the digest of the original.
	SHA256 [32]byte
	// ReferenceID is the reference id of the certificate.
	ReferenceID string
	// Stream is the stream whose data is the original, for the form Stream.
	Stream pdf.Ref
}

// keyOriginal is the key of the private entry. The other keys are in the dictionary
// of that entry.
const (
	keyOriginal    pdf.Name = "Certvault"
	keyForm        pdf.Name = "Form"
	keyLength      pdf.Name = "Length"
	keySHA256      pdf.Name = "SHA256"
	keyReferenceID pdf.Name = "ReferenceID"
	keyStream      pdf.Name = "Stream"
)

// formNames maps the forms to their names in the file.
var formNames = map[Form]pdf.Name{Prefix: "Prefix", Stream: "Stream", Source: "Source"}

func (o Original) dict() *pdf.Dict {
	dict := pdf.NewDict(
		pdf.Entry{Key: keyForm, Value: formNames[o.Form]},
		pdf.Entry{Key: keyLength, Value: pdf.Integer(o.Length)},
		pdf.Entry{Key: keySHA256, Value: pdf.Name(hex.EncodeToString(o.SHA256[:]))},
	)
	if o.ReferenceID != "" {
		dict.Set(keyReferenceID, pdf.Name(o.ReferenceID))
	}
	if o.Form == Stream {
		dict.Set(keyStream, o.Stream)
	}
	return dict
}

// Pending is a signature that is part of an update but has no value yet.
type Pending struct {
	signer    *Signer
	byteRange *pdf.Placeholder
	contents  *pdf.Placeholder
}

// Prepare adds an invisible signature field and its signature dictionary to u, an
// update of doc. found is the result of doc.Inspect. The field is added to page,
// which may be any page of doc. The first signature of a file is a certification
// signature that permits filling in forms and signing, but locks existing form
// fields. A later signature, or a signature of a file with usage rights, is an
// approval signature. The error wraps ErrKey.
func (s *Signer) Prepare(u *pdf.Update, doc *pdf.Document, found pdf.Findings, page *pdf.Page, st Statement) (*Pending, error) {
	if err := s.Check(st.Time); err != nil {
		return nil, err
	}
	scheme, err := s.check()
	if err != nil {
		return nil, err
	}
	p := &Pending{
		signer:    s,
		byteRange: &pdf.Placeholder{Text: bytes.Repeat([]byte{' '}, len("[0   ]")+3*len(strconv.FormatInt(doc.Size()+maxAdded, 10)))},
		contents:  &pdf.Placeholder{Text: append(append([]byte{'<'}, bytes.Repeat([]byte{'0'}, 2*s.reserve(scheme))...), '>')},
	}
	copy(p.byteRange.Text, "[0 0 0 0]")
	certify := len(found.Signatures) == 0 && !found.Certified && !found.UsageRights
	var references pdf.Array
	if certify {
		references = restrictions(u, found.AcroForm)
	}
	value := u.Add(p.dictionary(st, references))
	catalog := u.Catalog().Clone()
	if certify {
		perms := u.Dict(catalog.Get("Perms")).Clone()
		catalog.Set("Perms", perms.Set("DocMDP", value))
		// PDF/UA requires that the tab order of a page with annotations follows the structure (ISO
		// 14289-1, 7.18.3).
		marked := u.Resolve(u.Dict(catalog.Get("MarkInfo")).Get("Marked")) == pdf.Boolean(true)
		field := p.widget(u, page, value, fieldName(found, st), marked)
		if found.AcroForm {
			lock(u, field)
		}
		addField(u, catalog, field)
		u.SetCatalog(catalog)
		return p, nil
	}
	field := p.widget(u, page, value, fieldName(found, st), false)
	if addField(u, catalog, field) {
		u.SetCatalog(catalog)
	}
	return p, nil
}

// permission is the value of /P in a certification signature (12.8.2.2). The value 2 permits
// filling in forms and signing, and therefore also document time stamps and the data for their
// validation (12.8.4.3, 12.8.5). With 1, viewers would reject a document time stamp, which can be
// added years later, before the algorithms of the signature become weak.
const permission = 2

// restrictions returns the signature reference dictionaries of a certification
// signature (12.8.1, table 256). If the document has form fields, all fields are
// locked (12.8.2.4), so that viewers do not permit changes of the fields.
func restrictions(u *pdf.Update, hasFields bool) pdf.Array {
	reference := func(method pdf.Name, parms ...pdf.Entry) *pdf.Dict {
		return pdf.NewDict(
			pdf.Entry{Key: "Type", Value: pdf.Name("SigRef")},
			pdf.Entry{Key: "TransformMethod", Value: method},
			pdf.Entry{Key: "TransformParams", Value: pdf.NewDict(append([]pdf.Entry{{Key: "Type", Value: pdf.Name("TransformParams")}}, parms...)...).
				Set("V", pdf.Name("1.2"))},
		)
	}
	list := pdf.Array{reference("DocMDP", pdf.Entry{Key: "P", Value: pdf.Integer(permission)})}
	if hasFields {
		list = append(list, reference("FieldMDP", pdf.Entry{Key: "Action", Value: pdf.Name("All")}).Set("Data", u.CatalogRef()))
	}
	return list
}

// lock adds a /Lock entry for all fields to a signature field (12.7.5.5, table 236). A signature
// with the FieldMDP transform requires this entry in its field.
func lock(u *pdf.Update, field pdf.Ref) {
	u.Set(field, u.Dict(field).Clone().Set("Lock", u.Add(pdf.NewDict(
		pdf.Entry{Key: "Type", Value: pdf.Name("SigFieldLock")},
		pdf.Entry{Key: "Action", Value: pdf.Name("All")},
	))))
}

// maxAdded is larger than any update, in bytes.
const maxAdded = 1 << 30

// dictionary returns the signature dictionary (ISO 32000-2, 12.8.1, table 255; EN 319 142-1, 6.3).
// references are the restrictions on later changes, or nil.
func (p *Pending) dictionary(st Statement, references pdf.Array) *pdf.Dict {
	dict := pdf.NewDict(
		pdf.Entry{Key: "Type", Value: pdf.Name("Sig")},
		pdf.Entry{Key: "Filter", Value: pdf.Name("Adobe.PPKLite")},
		pdf.Entry{Key: "SubFilter", Value: pdf.Name(cadesDetached)},
		pdf.Entry{Key: "M", Value: pdf.Date(st.Time)},
	)
	if st.Name != "" {
		dict.Set("Name", pdf.TextString(st.Name))
	}
	if st.Reason != "" {
		dict.Set("Reason", pdf.TextString(st.Reason))
	}
	if references != nil {
		dict.Set("Reference", references)
	}
	if st.Original.Form != "" {
		dict.Set(keyOriginal, st.Original.dict())
	}
	return dict.Set("ByteRange", p.byteRange).Set("Contents", p.contents)
}

// fieldName returns a partial field name that no signed field of the file has.
func fieldName(found pdf.Findings, st Statement) string {
	name := "Certvault"
	if st.Original.ReferenceID != "" {
		name += " " + st.Original.ReferenceID
	}
	used := map[string]bool{}
	for _, s := range found.Signatures {
		used[s.Name] = true
	}
	unique := name
	for n := 2; used[unique]; n++ {
		unique = fmt.Sprintf("%s (%d)", name, n)
	}
	return unique
}

// widget adds the signature field, merged with its annotation (12.7.5.5), to the page, and returns
// the reference of the field. The rectangle of the annotation is empty, because PDF/A requires the
// annotation to be printed and not hidden (ISO 19005-2, 6.3.2). It is at the corner of the visible
// area, because PDF/UA requires a structure element only for annotations within the crop box (ISO
// 14289-1, 7.18.1). If setTabs is true and the page has no /Tabs, the tab order is set to follow the
// structure.
func (p *Pending) widget(u *pdf.Update, page *pdf.Page, value pdf.Ref, name string, setTabs bool) pdf.Ref {
	const flags = 1<<2 | 1<<7 // Print, Locked (12.5.3)
	box := page.Geometry().Box
	point := pdf.Rectangle{X0: box.X0, Y0: box.Y0, X1: box.X0, Y1: box.Y0}
	none := pdf.Array{pdf.Integer(0), pdf.Integer(0), pdf.Integer(0), pdf.Integer(0)}
	// PDF/A-1 requires an appearance even for an empty rectangle (ISO 19005-1,
	// 6.9).
	appearance := u.Add(pdf.NewStream(pdf.NewDict(
		pdf.Entry{Key: "Type", Value: pdf.Name("XObject")},
		pdf.Entry{Key: "Subtype", Value: pdf.Name("Form")},
		pdf.Entry{Key: "BBox", Value: none},
	), nil))
	widget := pdf.NewDict(
		pdf.Entry{Key: "Type", Value: pdf.Name("Annot")},
		pdf.Entry{Key: "Subtype", Value: pdf.Name("Widget")},
		pdf.Entry{Key: "FT", Value: pdf.Name("Sig")},
		pdf.Entry{Key: "T", Value: pdf.TextString(name)},
		pdf.Entry{Key: "TU", Value: pdf.TextString("Digital signature")},
		pdf.Entry{Key: "Rect", Value: point.Array()},
		pdf.Entry{Key: "F", Value: pdf.Integer(flags)},
		pdf.Entry{Key: "AP", Value: pdf.NewDict(pdf.Entry{Key: "N", Value: appearance})},
		pdf.Entry{Key: "V", Value: value},
	)
	field := u.Reserve()
	dict := u.PageDict(page)
	annotations := append(pdf.Array{}, u.Array(dict.Get("Annots"))...)
	annotations = append(annotations, field)
	annotsRef, indirect := dict.Get("Annots").(pdf.Ref)
	indirect = indirect && len(annotations) > 1
	setTabs = setTabs && !dict.Has("Tabs")
	ref := u.PageRef(page)
	if !indirect || setTabs || ref == (pdf.Ref{}) {
		dict = dict.Clone()
		if !indirect {
			dict.Set("Annots", annotations)
		}
		if setTabs {
			dict.Set("Tabs", pdf.Name("S"))
		}
		ref = u.SetPage(page, dict)
	}
	if indirect {
		u.Set(annotsRef, annotations)
	}
	u.Set(field, widget.Set("P", ref))
	return field
}

// addField adds a field to the interactive form (12.7.3), and reports whether
// it changed catalog.
func addField(u *pdf.Update, catalog *pdf.Dict, field pdf.Ref) bool {
	form := u.Dict(catalog.Get("AcroForm")).Clone()
	fields := append(pdf.Array{}, u.Array(form.Get("Fields"))...)
	fields = append(fields, field)
	if ref, ok := form.Get("Fields").(pdf.Ref); ok && len(fields) > 1 {
		u.Set(ref, fields)
	} else {
		form.Set("Fields", fields)
	}
	const signaturesExist, appendOnly = 1, 2 // 12.7.3, table 225
	flags, _ := u.Resolve(form.Get("SigFlags")).(pdf.Integer)
	form.Set("SigFlags", flags|signaturesExist|appendOnly)
	if ref, ok := catalog.Get("AcroForm").(pdf.Ref); ok && u.Dict(ref) != nil {
		u.Set(ref, form)
		return false
	}
	catalog.Set("AcroForm", form)
	return true
}
