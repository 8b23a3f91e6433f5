package seal

import (
	"bytes"
	"encoding/xml"
	"errors"
	"fmt"
	"io"
	"regexp"
	"strings"
	"unicode/utf8"

	"github.com/certvault/certvault/internal/pdf"
)

// maxMetadata is the maximum size of an XMP packet that is rewritten, in bytes.
const maxMetadata = 64 << 10

// namespace is the namespace of Certvault's XMP properties.
const namespace = "https://github.com/certvault/certvault/ns/1.0/"

var (
	rdfAbout = regexp.MustCompile(`rdf:about\s*=\s*(?:"([^"<]*)"|'([^'<]*)')`)
	pdfaPart = regexp.MustCompile(`pdfaid:part\s*(?:>|=\s*["'])\s*([1-4])`)
	padding  = regexp.MustCompile(`\s+(<\?xpacket end=)`)
)

// properties returns the rdf:Description of a stamp (ISO 16684-1, 7.4).
func properties(about string, s Stamp) string {
	return `<rdf:Description rdf:about="` + about + `" xmlns:cv="` + namespace + `">` +
		"<cv:ReferenceID>" + escape(s.ReferenceID) + "</cv:ReferenceID>" +
		"<cv:VerificationURL>" + escape(s.VerifyURL) + "</cv:VerificationURL>" +
		"<cv:Institution>" + escape(s.Institution) + "</cv:Institution>" +
		"</rdf:Description>\n"
}

// newPacket returns a complete XMP packet. An empty title is omitted.
func newPacket(title string, s Stamp) string {
	var b strings.Builder
	b.WriteString("<?xpacket begin=\"\uFEFF\" id=\"W5M0MpCehiHzreSzNTczkc9d\"?>\n" +
		`<x:xmpmeta xmlns:x="adobe:ns:meta/"><rdf:RDF xmlns:rdf="http://www.w3.org/1999/02/22-rdf-syntax-ns#">` + "\n")
	if title != "" {
		b.WriteString(`<rdf:Description rdf:about="" xmlns:dc="http://purl.org/dc/elements/1.1/"><dc:title><rdf:Alt><rdf:li xml:lang="x-default">` +
			escape(title) + "</rdf:li></rdf:Alt></dc:title></rdf:Description>\n")
	}
	b.WriteString(properties("", s))
	b.WriteString("</rdf:RDF></x:xmpmeta>\n<?xpacket end=\"w\"?>")
	return b.String()
}

// extendPacket adds the properties of a stamp to a packet and removes the padding. It returns false
// if the structure of the packet is not recognized.
func extendPacket(packet string, s Stamp) (string, bool) {
	end := strings.LastIndex(packet, "</rdf:RDF>")
	if end < 0 || !utf8.ValidString(packet) {
		return "", false
	}
	about := ""
	if m := rdfAbout.FindStringSubmatch(packet); m != nil {
		about = m[1] + strings.ReplaceAll(m[2], `"`, "&quot;")
	}
	added := properties(about, s)
	head := packet[:end]
	if part := archivalPart(packet); part >= '1' && part <= '3' {
		var ok bool
		if head, ok = withSchema(head, about); !ok {
			return "", false
		}
	}
	return padding.ReplaceAllString(head+added+packet[end:], "\n$1"), true
}

// schema describes the properties. PDF/A requires a description of each property that the standard does
// not define (ISO 19005-2, 6.6.2.3).
var schema = `<rdf:li rdf:parseType="Resource"><pdfaSchema:schema xmlns:pdfaSchema="http://www.aiim.org/pdfa/ns/schema#">Verification</pdfaSchema:schema>` +
	`<pdfaSchema:namespaceURI xmlns:pdfaSchema="http://www.aiim.org/pdfa/ns/schema#">` + namespace + `</pdfaSchema:namespaceURI>` +
	`<pdfaSchema:prefix xmlns:pdfaSchema="http://www.aiim.org/pdfa/ns/schema#">cv</pdfaSchema:prefix>` +
	`<pdfaSchema:property xmlns:pdfaSchema="http://www.aiim.org/pdfa/ns/schema#"><rdf:Seq>` +
	property("ReferenceID", "Text", "Reference id") + property("VerificationURL", "URL", "Page that verifies the document") +
	property("Institution", "Text", "Issuing institution") + `</rdf:Seq></pdfaSchema:property></rdf:li>`

func property(name, kind, description string) string {
	return `<rdf:li rdf:parseType="Resource" xmlns:pdfaProperty="http://www.aiim.org/pdfa/ns/property#">` +
		`<pdfaProperty:name>` + name + `</pdfaProperty:name><pdfaProperty:valueType>` + kind +
		`</pdfaProperty:valueType><pdfaProperty:category>external</pdfaProperty:category><pdfaProperty:description>` + description + `</pdfaProperty:description></rdf:li>`
}

// withSchema adds the schema to the bag of extension schemas in a packet, or adds a bag if the packet has
// no extension schemas. It returns false if the bag cannot be found.
func withSchema(head, about string) (string, bool) {
	const open = "<pdfaExtension:schemas>"
	at := strings.Index(head, open)
	if at < 0 {
		return head + `<rdf:Description rdf:about="` + about + `" xmlns:pdfaExtension="http://www.aiim.org/pdfa/ns/extension/">` +
			open + "<rdf:Bag>" + schema + "</rdf:Bag></pdfaExtension:schemas></rdf:Description>\n", true
	}
	at += len(open)
	bag := strings.Index(head[at:], "<rdf:Bag>")
	if bag < 0 || strings.TrimSpace(head[at:at+bag]) != "" {
		return "", false
	}
	at += bag + len("<rdf:Bag>")
	return head[:at] + schema + head[at:], true
}

// archivalPart returns the part of ISO 19005 to which a packet claims conformance, as a character such as
// '2', or 0 if there is none.
func archivalPart(packet string) byte {
	if m := pdfaPart.FindStringSubmatch(packet); m != nil {
		return m[1][0]
	}
	return 0
}

func escape(s string) string {
	var b bytes.Buffer
	if err := xml.EscapeText(&b, []byte(s)); err != nil {
		return "" // a bytes.Buffer returns no errors
	}
	return b.String()
}

// metadataPlace selects the metadata stream that describes the stamp.
type metadataPlace int

const (
	documentMetadata metadataPlace = iota
	pageMetadata                   // used if the tail is longer than maxTail with documentMetadata
)

// metadata adds the stamp to the XMP metadata of the document or of a page. It creates missing
// metadata, and does not change metadata with an unknown structure.
func (e *edit) metadata(where metadataPlace, page *pdf.Page) error {
	owner, title := e.update.Catalog(), e.doc.Text(e.doc.Dict(e.doc.Trailer().Get("Info")).Get("Title"))
	if where == pageMetadata {
		owner, title = e.dict(page), ""
	}
	old := owner.Get("Metadata")
	packet, dict := newPacket(title, e.stamp), metadataDict(nil)
	if stream, ok := e.update.Resolve(old).(*pdf.Stream); ok {
		data, err := readMetadata(stream)
		if err != nil {
			return err
		}
		extended, ok := extendPacket(data, e.stamp)
		if !ok {
			return nil // keep the metadata of the original
		}
		packet, dict = extended, metadataDict(stream.Dict)
	}
	stream := pdf.NewStream(dict, []byte(packet))
	encryption := e.doc.Dict(e.doc.Trailer().Get("Encrypt"))
	if archivalPart(packet) == '1' || e.doc.Resolve(encryption.Get("EncryptMetadata")) == pdf.Boolean(false) {
		// ISO 19005-1, 6.7.2 allows no filter. Unencrypted metadata in an encrypted file (ISO
		// 32000-2, 7.6.4.2) is for programs that do not parse PDF, and therefore has no filter
		// either.
		stream = pdf.NewRawStream(dict, []byte(packet))
	}
	if ref, ok := old.(pdf.Ref); ok && e.update.Resolve(old) != nil {
		e.update.Set(ref, stream)
		return nil
	}
	owner = owner.Clone().Set("Metadata", e.update.Add(stream))
	if where == pageMetadata {
		e.update.SetPage(page, owner)
		return nil
	}
	e.update.SetCatalog(owner)
	return nil
}

// metadataDict returns the dictionary of a metadata stream (ISO 32000-2, 14.3.2) without the
// entries that describe how the old data was stored.
func metadataDict(old *pdf.Dict) *pdf.Dict {
	dict := old.Clone()
	for _, key := range []pdf.Name{"Length", "Filter", "DecodeParms", "DL", "F", "FFilter", "FDecodeParms"} {
		dict.Delete(key)
	}
	return dict.Set("Type", pdf.Name("Metadata")).Set("Subtype", pdf.Name("XML"))
}

// readMetadata returns the packet of a stream, or "" if the packet cannot be decoded or is too large.
func readMetadata(stream *pdf.Stream) (string, error) {
	r, err := stream.Decoded()
	if errors.Is(err, pdf.ErrFilter) || errors.Is(err, pdf.ErrDamaged) {
		return "", nil
	}
	if err != nil {
		return "", fmt.Errorf("reading the metadata: %w", err)
	}
	data, err := io.ReadAll(io.LimitReader(r, maxMetadata+1))
	if err != nil {
		return "", fmt.Errorf("reading the metadata: %w", err)
	}
	if len(data) > maxMetadata {
		return "", nil
	}
	return string(data), nil
}
