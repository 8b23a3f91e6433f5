package design

import (
	"errors"
	"fmt"
	"strings"
)

// Design is a PDF on which a template is built.
type Design struct {
	// PDF is the file to build on. It has no scripts, forms or attachments.
	PDF   []byte
	Pages []Page
	// Warnings are remarks for the person who uploaded the file.
	Warnings []Warning
	// Fields are suggestions: the text fields of the form that the file had.
	Fields []Field
}

// Page is the size of a page as displayed, in points. A Page is stored as JSON.
type Page struct {
	Width  float64 `json:"width"`
	Height float64 `json:"height"`
}

// Warning is a remark about a design that can be used. Code is a short stable identifier in snake_case,
// Text a sentence for the user. A Warning is stored as JSON.
type Warning struct {
	Code string `json:"code"`
	Text string `json:"text"`
}

// Refusal is the reason why a file cannot be a design. Code is a short stable identifier in
// snake_case, Reason a sentence for the user who uploaded the file.
type Refusal struct{ Code, Reason string }

// Error returns the reason.
func (r *Refusal) Error() string { return r.Reason }

func refuse(code, reason string) error { return &Refusal{Code: code, Reason: reason} }

// Pictures returns a picture, PNG or JPEG, by its id: "logo", or the SHA-256 of a stored picture in
// hexadecimal. The error is ErrNoPicture if there is no such picture.
type Pictures func(id string) ([]byte, error)

// ErrNoPicture reports that there is no picture with the given id. If the institution has no logo, a field for
// the logo stays empty. If any other picture does not exist, its field has a problem.
var ErrNoPicture = errors.New("there is no such picture")

// Base is the data that all certificates of a published template share.
type Base struct {
	// PDF is the design followed by everything that the certificates share. Each certificate of the
	// template begins with these bytes.
	PDF []byte
	// Plan is the other data that Open needs, as JSON, such as the objects of the file that each
	// certificate replaces, and the fonts in the file.
	Plan []byte
}

// Error lists the problems.
func (p Problems) Error() string {
	list := make([]string, len(p))
	for i, problem := range p {
		list[i] = problem.String()
	}
	return strings.Join(list, "; ")
}

// String returns the field, the code and the detail.
func (p Problem) String() string {
	s := p.Code
	if p.Detail != "" {
		s += " " + p.Detail
	}
	if p.Field != "" {
		s = fmt.Sprintf("field %s: %s", p.Field, s)
	}
	return s
}
