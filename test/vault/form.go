package vault

import (
	"bytes"
	"fmt"
	"io"
	"mime/multipart"
	"slices"
)

// Field is a text field of a form.
type Field struct{ Name, Value string }

// Form is the form of an upload.
type Form struct {
	// Fields are the text fields, in the order in which they are sent before the file.
	Fields []Field
	// FileField is the name of the field with the file. If it is empty, there is no file.
	FileField string
	FileName  string
	File      []byte
}

// NewForm returns a form with a file and without optional fields. A vault rejects a second upload
// of the form as a duplicate.
func NewForm(title, name, email, fileName string, file []byte) *Form {
	return &Form{
		Fields:    []Field{{"certificate_title", title}, {"full_name", name}, {"applicant_email", email}},
		FileField: "certificate_file", FileName: fileName, File: file,
	}
}

// With returns a copy of the form with a field set. A new field is added at the end.
func (f *Form) With(name, value string) *Form {
	changed := *f
	changed.Fields = slices.Clone(f.Fields)
	for i := range changed.Fields {
		if changed.Fields[i].Name == name {
			changed.Fields[i].Value = value
			return &changed
		}
	}
	changed.Fields = append(changed.Fields, Field{name, value})
	return &changed
}

// Without returns a copy of the form without a text field, or without the file if name is
// FileField.
func (f *Form) Without(name string) *Form {
	changed := *f
	changed.Fields = slices.DeleteFunc(slices.Clone(f.Fields), func(x Field) bool { return x.Name == name })
	if name == f.FileField {
		changed.FileField = ""
	}
	return &changed
}

// WithFile returns a copy of the form with another file.
func (f *Form) WithFile(name string, file []byte) *Form {
	changed := *f
	changed.FileName, changed.File = name, file
	return &changed
}

// Encode returns the form as multipart/form-data with the content type. Encode does not copy the
// file.
func (f *Form) Encode() (contentType string, body *Body, err error) {
	var head bytes.Buffer
	w := multipart.NewWriter(&head)
	for _, field := range f.Fields {
		if err := w.WriteField(field.Name, field.Value); err != nil {
			return "", nil, fmt.Errorf("encoding a form: %w", err)
		}
	}
	file := f.File
	if f.FileField == "" {
		file = nil
	} else if _, err := w.CreateFormFile(f.FileField, f.FileName); err != nil {
		return "", nil, fmt.Errorf("encoding a form: %w", err)
	}
	before := head.Len()
	if err := w.Close(); err != nil {
		return "", nil, fmt.Errorf("encoding a form: %w", err)
	}
	all := head.Bytes()
	return w.FormDataContentType(), NewBody(all[:before], file, all[before:]), nil
}

// Body is the body of a request.
type Body struct {
	io.Reader

	// Size is the length of the body in bytes.
	Size int64
}

// NewBody returns a body that consists of pieces. It does not copy the pieces.
func NewBody(pieces ...[]byte) *Body {
	b := &Body{}
	readers := make([]io.Reader, len(pieces))
	for i, p := range pieces {
		readers[i] = bytes.NewReader(p)
		b.Size += int64(len(p))
	}
	b.Reader = io.MultiReader(readers...)
	return b
}
