// Package book defines the content of the help pages, which the generator writes and the vault embeds.
package book

import (
	"encoding/json"
	"fmt"

	"github.com/klauspost/compress/zstd"
)

// Mark follows the path of each link to a page of the vault. If the address of a request selects a
// language, the vault replaces the mark with the query of this language, such as "?lang=de". Otherwise
// it removes the mark.
const Mark = "~lang~"

// Book has all help pages.
type Book struct {
	Parts []Part `json:"parts"`
}

// Part returns the part with a name, or nil.
func (b *Book) Part(name string) *Part {
	for i := range b.Parts {
		if b.Parts[i].Name == name {
			return &b.Parts[i]
		}
	}
	return nil
}

// Part is the part of the book for one kind of reader.
type Part struct {
	// Name is a part of the address, such as "registrar".
	Name string `json:"name"`
	// Translated reports whether the pages exist in every language. Otherwise they are in English.
	Translated bool `json:"translated,omitempty"`
	// Entries are the pages in reading order.
	Entries []Entry `json:"entries"`
}

// Entry is a page in all its languages.
type Entry struct {
	// Name is a part of the address, such as "first-hour".
	Name string `json:"name"`
	// Hidden reports whether the page is missing from the lists of pages. The search finds it.
	Hidden bool `json:"hidden,omitempty"`
	// Pages has the page in each of its languages, by the tag of the language. It always has English.
	Pages map[string]*Page `json:"pages"`
}

// Page is one page in one language.
type Page struct {
	Title string `json:"title"`
	// HTML is the content as trusted markup, with Mark in the links to pages of the vault.
	HTML string `json:"html"`
	// Sections are the parts of the page, each with its heading. The first has the title of the page.
	Sections []Section `json:"sections"`
}

// Section is the text below a heading.
type Section struct {
	// ID is the id of the heading.
	ID    string `json:"id"`
	Title string `json:"title"`
	// Level is the level of the heading, 1 to 6.
	Level int `json:"level"`
	// Text is the text without markup, on one line.
	Text string `json:"text"`
}

// Encode returns the book as compressed JSON. The result is the same on every machine.
func (b *Book) Encode() ([]byte, error) {
	text, err := json.Marshal(b)
	if err != nil {
		return nil, err
	}
	encoder, err := zstd.NewWriter(nil, zstd.WithEncoderLevel(zstd.SpeedBestCompression), zstd.WithEncoderConcurrency(1), zstd.WithWindowSize(8<<20))
	if err != nil {
		return nil, err
	}
	return encoder.EncodeAll(text, nil), nil
}

// maxSize is the maximum size of a book in bytes, before compression.
const maxSize = 16 << 20

// Decode returns the book that Encode wrote.
func Decode(data []byte) (*Book, error) {
	decoder, err := zstd.NewReader(nil, zstd.WithDecoderConcurrency(1), zstd.WithDecoderMaxMemory(maxSize))
	if err != nil {
		return nil, err
	}
	defer decoder.Close()
	text, err := decoder.DecodeAll(data, nil)
	if err != nil {
		return nil, fmt.Errorf("decompressing the help pages: %w", err)
	}
	var b Book
	if err := json.Unmarshal(text, &b); err != nil {
		return nil, fmt.Errorf("reading the help pages: %w", err)
	}
	return &b, nil
}
