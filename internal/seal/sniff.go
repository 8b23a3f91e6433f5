package seal

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"path"
	"strings"
)

// headLength is the number of bytes at the start of the file that must contain the header of a PDF.
// Poppler searches fewer bytes than other readers. If the header is after these bytes, poppler computes
// wrong offsets and cannot open some verified PDFs.
const headLength = 1023

// extensions maps file name extensions to their types.
var extensions = map[string]MediaType{".pdf": PDF, ".jpg": JPEG, ".jpeg": JPEG, ".png": PNG}

// otherSignatures lists the signatures of other file types. A PDF that begins with one of these
// signatures is a file of both types, and two programs may show different content.
var otherSignatures = []struct{ magic, what string }{
	{"PK\x03\x04", "a ZIP archive"},
	{"PK\x05\x06", "a ZIP archive"},
	{"GIF8", "a GIF image"},
	{"\xFF\xD8\xFF", "a JPEG image"},
	{"\x89PNG", "a PNG image"},
	{"BM", "a bitmap image"},
	{"II*\x00", "a TIFF image"},
	{"MM\x00*", "a TIFF image"},
	{"RIFF", "an audio, video or WebP file"},
	{"Rar!", "a RAR archive"},
	{"7z\xBC\xAF", "a 7-Zip archive"},
	{"\x1F\x8B", "a gzip archive"},
	{"BZh", "a bzip2 archive"},
	{"MZ", "a Windows program"},
	{"\x7FELF", "a Linux program"},
	{"\xCA\xFE\xBA\xBE", "a program"},
	{"\xCF\xFA\xED\xFE", "a macOS program"},
	{"\xCE\xFA\xED\xFE", "a macOS program"},
	{"#!", "a script"},
	{"%!PS", "a PostScript program"},
	{"{\\rtf", "an RTF document"},
	{"\xD0\xCF\x11\xE0", "an Office document"},
}

// markup lists the beginnings of tags that mark a web page.
var markup = []string{"<!doctype", "<html", "<head", "<body", "<script", "<svg", "<?xml", "<iframe", "<?php", "<!--"}

// Sniff detects the type of a file from the extension of its name and its content. The error is a
// *Refusal if the extension and the content disagree, if the type cannot be sealed, if the file is
// empty, if the header of a PDF is not in the first headLength bytes, or if a PDF is also a file of
// another type. Any other error means that the file cannot be read.
func Sniff(name string, r io.ReaderAt, size int64) (MediaType, error) {
	declared, ok := extensions[strings.ToLower(path.Ext(name))]
	if !ok {
		return "", refuse("unsupported_type", "Only PDF, JPG, JPEG and PNG files can be uploaded.")
	}
	if size == 0 {
		return "", refuse("empty", "The file is empty.")
	}
	head := make([]byte, min(size, headLength+8))
	if n, err := r.ReadAt(head, 0); err != nil && (!errors.Is(err, io.EOF) || n < len(head)) {
		return "", fmt.Errorf("reading the original: %w", err)
	}
	if found := contentType(head); found != declared {
		if declared == PDF && bytes.Contains(head, []byte("%PDF-")) {
			return "", refuse("leading_data", "Other data precedes the PDF document, so some programs cannot open it. Save the document as a plain PDF.")
		}
		return "", refuse("type_mismatch", fmt.Sprintf("The file name says %s, but its content is %s.", describe(declared), describe(found)))
	}
	if declared == PDF {
		if err := refusePolyglot(r, size, head); err != nil {
			return "", err
		}
	}
	return declared, nil
}

func contentType(head []byte) MediaType {
	switch {
	case bytes.HasPrefix(head, []byte("\xFF\xD8\xFF")):
		return JPEG
	case bytes.HasPrefix(head, []byte(pngSignature)):
		return PNG
	case bytes.Contains(head[:min(len(head), headLength)], []byte("%PDF-")):
		return PDF
	}
	return ""
}

func describe(t MediaType) string {
	switch t {
	case PDF:
		return "a PDF document"
	case JPEG:
		return "a JPEG image"
	case PNG:
		return "a PNG image"
	}
	return "something else"
}

// refusePolyglot returns a *Refusal for a PDF that is also a file of another type.
func refusePolyglot(r io.ReaderAt, size int64, head []byte) error {
	prefix := head[:max(0, bytes.Index(head, []byte("%PDF-")))]
	for _, f := range otherSignatures {
		if len(prefix) > 0 && bytes.HasPrefix(head, []byte(f.magic)) {
			return polyglot(f.what)
		}
	}
	folded := bytes.ToLower(prefix)
	for _, tag := range markup {
		if bytes.Contains(folded, []byte(tag)) {
			return polyglot("a web page")
		}
	}
	if len(head) > 262 && string(head[257:262]) == "ustar" {
		return polyglot("a TAR archive")
	}
	zip, err := endsInZIP(r, size)
	if err != nil {
		return err
	}
	if zip {
		return polyglot("a ZIP archive")
	}
	return nil
}

func polyglot(what string) *Refusal {
	return refuse("polyglot", "The file is a PDF document and "+what+" at the same time. Save the document as a plain PDF.")
}

// endsInZIP reports whether the file ends with a ZIP archive, that is, with an end record (APPNOTE
// 4.3.16) whose comment reaches the end of the file. endsInZIP returns false for an archive that is an
// attachment of the PDF, because other data follows it.
func endsInZIP(r io.ReaderAt, size int64) (bool, error) {
	const record = 22
	n := min(size, record+1<<16)
	tail := make([]byte, n)
	if read, err := r.ReadAt(tail, size-n); err != nil && (!errors.Is(err, io.EOF) || int64(read) < n) {
		return false, fmt.Errorf("reading the original: %w", err)
	}
	tail = bytes.TrimRight(tail, "\r\n")
	for {
		at := bytes.Index(tail, []byte("PK\x05\x06"))
		if at < 0 {
			return false, nil
		}
		tail = tail[at:]
		if len(tail) >= record && record+int(binary.LittleEndian.Uint16(tail[20:])) >= len(tail) {
			return true, nil
		}
		tail = tail[1:]
	}
}
