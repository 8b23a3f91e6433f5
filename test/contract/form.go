package contract

import (
	"errors"
	"fmt"
	"io"
	"mime"
	"mime/multipart"
	"net/http"
	"net/url"
	"sync"

	"github.com/getkin/kin-openapi/openapi3"
	"github.com/getkin/kin-openapi/openapi3filter"
)

// registerForms registers body decoders that return a form as an object with string values. The
// decoders of kin-openapi do not support patternProperties.
var registerForms = sync.OnceFunc(func() {
	openapi3filter.RegisterBodyDecoder("multipart/form-data", readMultipart)
	openapi3filter.RegisterBodyDecoder("application/x-www-form-urlencoded", readURLEncoded)
})

func readMultipart(body io.Reader, header http.Header, _ *openapi3.SchemaRef, _ openapi3filter.EncodingFn) (any, error) {
	_, params, err := mime.ParseMediaType(header.Get("Content-Type"))
	if err != nil {
		return nil, fmt.Errorf("reading the form's type: %w", err)
	}
	form := map[string]any{}
	in := multipart.NewReader(body, params["boundary"])
	for {
		part, err := in.NextPart()
		if errors.Is(err, io.EOF) {
			return form, nil
		}
		if err != nil {
			return nil, fmt.Errorf("reading the form: %w", err)
		}
		value, err := io.ReadAll(part)
		if err != nil {
			return nil, fmt.Errorf("reading the form: %w", err)
		}
		form[part.FormName()] = string(value)
	}
}

func readURLEncoded(body io.Reader, _ http.Header, _ *openapi3.SchemaRef, _ openapi3filter.EncodingFn) (any, error) {
	text, err := io.ReadAll(body)
	if err != nil {
		return nil, fmt.Errorf("reading the form: %w", err)
	}
	values, err := url.ParseQuery(string(text))
	if err != nil {
		return nil, fmt.Errorf("reading the form: %w", err)
	}
	form := map[string]any{}
	for name := range values {
		form[name] = values.Get(name)
	}
	return form, nil
}
