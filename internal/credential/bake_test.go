package credential

import (
	"bytes"
	"compress/zlib"
	"encoding/binary"
	"errors"
	"hash/crc32"
	"image"
	"image/png"
	"strings"
	"testing"
)

func samplePNG(t testing.TB) []byte {
	t.Helper()
	var b bytes.Buffer
	if err := png.Encode(&b, image.NewGray(image.Rect(0, 0, 8, 8))); err != nil {
		t.Fatal(err)
	}
	return b.Bytes()
}

const vector = `<?xml version="1.0" encoding="UTF-8"?>
<!-- a > b --><svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 8 8" data-x="a>b"><title>Badge</title><path d="M0 0"/></svg>`

// awkward contains characters that are escaped in JSON or XML, and characters that are not ASCII.
const awkward = "]]>\ufffe\x00\x1f\u2028<&\"' \U0001F393 e\u0301"

func TestBake(t *testing.T) {
	t.Parallel()
	k := newKeys(t)
	in := testInput()
	in.Title += awkward
	documents := newWeb(t, k)
	for format, data := range formats(t, mustNew(t, in), k) {
		baked, err := BakePNG(samplePNG(t), []byte(data))
		if err != nil {
			t.Fatal(err)
		}
		again, err := BakePNG(baked, []byte(data)) // replaces the first credential
		if err != nil || !bytes.Equal(again, baked) {
			t.Errorf("%s: BakePNG of a baked picture returned %d bytes, error %v, want the same %d bytes", format, len(again), err, len(baked))
		}
		if _, err := png.Decode(bytes.NewReader(baked)); err != nil {
			t.Errorf("%s: the baked picture cannot be decoded: %v", format, err)
		}
		vector, err := BakeSVG([]byte(vector), []byte(data))
		if err != nil {
			t.Fatal(err)
		}
		if _, err := BakeSVG(vector, []byte(data)); err == nil {
			t.Errorf("%s: BakeSVG of a baked picture returned nil, want an error", format)
		}
		for carrier, file := range map[Carrier][]byte{CarrierPNG: baked, CarrierSVG: vector, CarrierText: []byte("\ufeff " + data + "\n")} {
			r := verify(t, string(file), documents, testNow)
			if r.Carrier != carrier || r.Verdict != Valid {
				t.Errorf("%s in %s: carrier = %s, report = %s, want the same carrier and %s", format, carrier, r.Carrier, summary(r), Valid)
			}
			if r.Format == MediaTypeVC && r.Statement.Title != in.Title {
				t.Errorf("%s: title = %q, want %q", carrier, r.Statement.Title, in.Title)
			}
		}
	}
}

// The expected element of SVG and chunk of PNG are those of the specification (OB, 5.3).
func TestBakedBytes(t *testing.T) {
	t.Parallel()
	baked, err := BakeSVG([]byte(vector), []byte("e30.e30.AA"))
	if err != nil {
		t.Fatal(err)
	}
	want := strings.Replace(vector, `data-x="a>b">`, `data-x="a>b" xmlns:openbadges="https://purl.imsglobal.org/ob/v3p0"><openbadges:credential verify="e30.e30.AA"></openbadges:credential>`, 1)
	if string(baked) != want {
		t.Errorf("BakeSVG = %s\nwant %s", baked, want)
	}
	chunk, err := BakePNG(samplePNG(t), []byte("{}"))
	if err != nil {
		t.Fatal(err)
	}
	if !bytes.Contains(chunk, []byte("\x00\x00\x00\x1aiTXtopenbadgecredential\x00\x00\x00\x00\x00{}")) {
		t.Errorf("BakePNG = %q, want a picture with the iTXt chunk of the credential", chunk)
	}
}

func textChunk(data []byte) []byte {
	body := append([]byte("iTXt"), data...)
	out := binary.BigEndian.AppendUint32(nil, uint32(len(data)))
	return binary.BigEndian.AppendUint32(append(out, body...), crc32.ChecksumIEEE(body))
}

func compressedText(t testing.TB, text []byte) []byte {
	t.Helper()
	var z bytes.Buffer
	w := zlib.NewWriter(&z)
	if _, err := w.Write(text); err != nil {
		t.Fatal(err)
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	return textChunk(append([]byte(bakedKeyword+"\x00\x01\x00\x00\x00"), z.Bytes()...))
}

func TestHostilePictures(t *testing.T) {
	t.Parallel()
	plain := samplePNG(t)
	insert := func(chunks ...[]byte) []byte {
		return append(append(plain[:33:33], bytes.Join(chunks, nil)...), plain[33:]...)
	}
	text := textChunk([]byte(bakedKeyword + "\x00\x00\x00\x00\x00{}"))
	if _, _, err := Unbake(insert(compressedText(t, []byte("{}")))); err != nil {
		t.Errorf("compressed text: error = %v, want nil", err)
	}
	for name, test := range map[string]struct {
		file []byte
		want error
	}{
		"no credential": {plain, ErrNoCredential},
		"bomb":          {insert(compressedText(t, make([]byte, 3<<20))), errTooLarge},
		"two":           {insert(text, text), ErrPicture},
		"cut off":       {insert(text)[:60], ErrPicture},
		"long chunk":    {append(plain[:33:33], "\xff\xff\xff\xffiTXt"...), ErrPicture},
		"short text":    {insert(textChunk([]byte(bakedKeyword + "\x00\x00"))), ErrPicture},
		"no separators": {insert(textChunk([]byte(bakedKeyword + "\x00\x00\x00{}"))), ErrPicture},
		"checksum":      {bytes.Replace(insert(text), []byte("{}"), []byte("[]"), 1), ErrPicture},
		"not zlib":      {insert(textChunk([]byte(bakedKeyword + "\x00\x01\x00\x00\x00{}"))), ErrPicture},
		"other text":    {insert(textChunk([]byte(bakedKeyword + "\x00\x00\x00\x00\x00hello"))), ErrNoCredential},
		"too large":     {make([]byte, MaxFile+1), errTooLarge},
		"entities":      {[]byte(`<!DOCTYPE svg [<!ENTITY a "aaaa"><!ENTITY b "&a;&a;">]><svg>&b;</svg>`), ErrPicture},
		"deep":          {[]byte(strings.Repeat("<svg>", 300)), errTooMany},
		"many":          {[]byte("<svg>" + strings.Repeat("<a/>", maxElements) + "</svg>"), errTooMany},
		"HTML":          {[]byte("<html></html>"), ErrNoCredential},
		"elements":      {[]byte(`<svg xmlns:o="https://purl.imsglobal.org/ob/v3p0"><o:credential><a/></o:credential></svg>`), ErrPicture},
		"two elements":  {[]byte(`<svg xmlns:o="https://purl.imsglobal.org/ob/v3p0"><o:credential>{}</o:credential><o:credential>{}</o:credential></svg>`), ErrPicture},
		"no namespace":  {[]byte(`<svg><credential>{}</credential></svg>`), ErrNoCredential},
		"text":          {[]byte("hello"), ErrNoCredential},
		"empty":         {nil, ErrNoCredential},
		"PDF":           {[]byte("%PDF-1.7\n"), ErrNoCredential},
	} {
		if _, _, err := Unbake(test.file); !errors.Is(err, test.want) {
			t.Errorf("%s: error = %v, want %v", name, err, test.want)
		}
	}
	for name, file := range map[string][]byte{
		"not PNG": []byte("x"), "cut off": plain[:20], "no end": plain[:33], "no header": append(bytes.Clone(pngSignature), plain[33:]...),
	} {
		if _, err := BakePNG(file, []byte("{}")); !errors.Is(err, ErrPicture) {
			t.Errorf("BakePNG, %s: error = %v, want ErrPicture", name, err)
		}
	}
	for name, file := range map[string]string{
		"not SVG": "<html></html>", "empty": "<svg/>", "prefix in use": `<svg xmlns:openbadges="urn:x"></svg>`, "cut off": "<svg>", "no XML": "x",
	} {
		if baked, err := BakeSVG([]byte(file), []byte("{}")); err == nil {
			t.Errorf("BakeSVG, %s: picture = %s, want an error", name, baked)
		}
	}
}
