package design

import (
	"bytes"
	"encoding/xml"
	"fmt"
	"io"
	"regexp"
	"slices"
	"strings"
	"unicode/utf8"

	"github.com/certvault/certvault/internal/pdf"
)

// Archival appends what PDF/A-2b (ISO 19005-2) requires of a file as a whole: an sRGB output intent
// and XMP metadata with the title. The content of the file must already follow the rules: embedded
// fonts, and colours in DeviceRGB or DeviceGray.
func Archival(file []byte, title string) ([]byte, error) {
	doc, err := pdf.Open(bytes.NewReader(file), int64(len(file)))
	if err != nil {
		return nil, fmt.Errorf("reading the design: %w", err)
	}
	u := doc.Update()
	catalog := u.Catalog().Clone()
	catalog.Set("OutputIntents", pdf.Array{u.Add(pdf.NewDict(
		pdf.Entry{Key: "Type", Value: pdf.Name("OutputIntent")},
		pdf.Entry{Key: "S", Value: pdf.Name("GTS_PDFA1")},
		pdf.Entry{Key: "OutputConditionIdentifier", Value: pdf.String("sRGB")},
		pdf.Entry{Key: "Info", Value: pdf.String("sRGB IEC61966-2.1")},
		pdf.Entry{Key: "DestOutputProfile", Value: u.Add(profileStream(sRGB(), "DeviceRGB"))},
	))})
	catalog.Set("Metadata", u.Add(pdf.NewRawStream(metadataDict(), []byte(packet(title)))))
	u.SetCatalog(catalog)
	if title != "" {
		u.SetTrailer("Info", u.Add(doc.Dict(doc.Trailer().Get("Info")).Clone().Set("Title", pdf.TextString(title))))
	}
	tail, err := u.Bytes()
	if err != nil {
		return nil, fmt.Errorf("adding metadata: %w", err)
	}
	return slices.Concat(file, tail), nil
}

func metadataDict() *pdf.Dict {
	return pdf.NewDict(pdf.Entry{Key: "Type", Value: pdf.Name("Metadata")}, pdf.Entry{Key: "Subtype", Value: pdf.Name("XML")})
}

// profileStream returns a stream with an ICC profile (ISO 32000-2, 8.6.5.5).
func profileStream(profile []byte, alternate pdf.Name) *pdf.Stream {
	n := 3
	if alternate == "DeviceGray" {
		n = 1
	}
	return pdf.NewStream(pdf.NewDict(pdf.Entry{Key: "N", Value: pdf.Integer(n)}, pdf.Entry{Key: "Alternate", Value: alternate}), profile)
}

// packet returns XMP metadata (ISO 16684-1) that identifies a file as PDF/A-2b.
func packet(title string) string {
	var b strings.Builder
	b.WriteString("<?xpacket begin=\"\uFEFF\" id=\"W5M0MpCehiHzreSzNTczkc9d\"?>\n" +
		`<x:xmpmeta xmlns:x="adobe:ns:meta/"><rdf:RDF xmlns:rdf="http://www.w3.org/1999/02/22-rdf-syntax-ns#">` + "\n" +
		`<rdf:Description rdf:about="" xmlns:pdfaid="http://www.aiim.org/pdfa/ns/id/">` +
		"<pdfaid:part>2</pdfaid:part><pdfaid:conformance>B</pdfaid:conformance></rdf:Description>\n")
	if title != "" {
		b.WriteString(titleDescription("", title))
	}
	b.WriteString("</rdf:RDF></x:xmpmeta>\n<?xpacket end=\"w\"?>")
	return b.String()
}

func titleDescription(about, title string) string {
	return `<rdf:Description rdf:about="` + about + `" xmlns:dc="http://purl.org/dc/elements/1.1/">` + titleElement(title) + "</rdf:Description>\n"
}

func titleElement(title string) string {
	var b bytes.Buffer
	if xml.EscapeText(&b, []byte(title)) != nil {
		return "" // a bytes.Buffer returns no errors
	}
	return `<dc:title><rdf:Alt><rdf:li xml:lang="x-default">` + b.String() + "</rdf:li></rdf:Alt></dc:title>"
}

var (
	dcTitle  = regexp.MustCompile(`(?s)<dc:title>.*?</dc:title>|<dc:title\s*/>`)
	rdfAbout = regexp.MustCompile(`rdf:about\s*=\s*"([^"<]*)"`)
	pdfaPart = regexp.MustCompile(`pdfaid:part\s*(?:>|=\s*["'])\s*([1-4])`)
)

// withTitle returns XMP metadata with another title. It reports whether it recognizes the metadata.
func withTitle(packet, title string) (string, bool) {
	end := strings.LastIndex(packet, "</rdf:RDF>")
	if end < 0 || !utf8.ValidString(packet) {
		return "", false
	}
	if at := dcTitle.FindStringIndex(packet); at != nil {
		return packet[:at[0]] + titleElement(title) + packet[at[1]:], true
	}
	about := ""
	if m := rdfAbout.FindStringSubmatch(packet); m != nil {
		about = m[1]
	}
	return packet[:end] + titleDescription(about, title) + packet[end:], true
}

// maxMetadata is the maximum size of metadata that is rewritten, in bytes.
const maxMetadata = 256 << 10

// readMetadata returns the XMP metadata of a document, or "" if there is none, or if it is damaged or
// too large.
func readMetadata(doc *pdf.Document, catalog *pdf.Dict) string {
	stream, ok := doc.Resolve(catalog.Get("Metadata")).(*pdf.Stream)
	if !ok {
		return ""
	}
	in, err := stream.Decoded()
	if err != nil {
		return ""
	}
	data, err := io.ReadAll(io.LimitReader(in, maxMetadata+1))
	if err != nil || len(data) > maxMetadata {
		return ""
	}
	return string(data)
}
