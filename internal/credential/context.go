package credential

import (
	"bytes"
	"embed"
	"fmt"
	"sync"

	"github.com/piprate/json-gold/ld"
)

// The contexts of the credentials that this package builds (VC, 4.3; OB, B.1).
const (
	ContextVC = "https://www.w3.org/ns/credentials/v2"
	ContextOB = "https://purl.imsglobal.org/spec/ob/v3p0/context-3.0.3.json"

	// contextVC1 is the context of version 1.1. This package reads such credentials, but does not build them.
	contextVC1 = "https://www.w3.org/2018/credentials/v1"
)

//go:embed contexts
var contextFiles embed.FS

// contextNames contains the file of each known context. Only these contexts are used, and they are
// never fetched, because a changed context would change the meaning of a signed credential (VC-DI, 2.4.1).
var contextNames = map[string]string{
	ContextVC:  "credentials-v2.json",
	ContextOB:  "ob-3.0.3.json",
	contextVC1: "credentials-v1.json",
	"https://purl.imsglobal.org/spec/ob/v3p0/context-3.0.2.json": "ob-3.0.2.json",
	"https://purl.imsglobal.org/spec/ob/v3p0/context-3.0.1.json": "ob-3.0.1.json",
	"https://purl.imsglobal.org/spec/ob/v3p0/context.json":       "ob-3.0.0.json",
	"https://purl.imsglobal.org/spec/ob/v3p0/extensions.json":    "ob-extensions.json",
	"https://www.w3.org/ns/credentials/undefined-terms/v2":       "undefined-terms-v2.json",
	"https://w3id.org/security/data-integrity/v2":                "data-integrity-v2.json",
}

// Licences returns the licences of the embedded contexts.
func Licences() (string, error) {
	data, err := contextFiles.ReadFile("contexts/LICENSES.txt")
	return string(data), err
}

// UnknownContextError reports a context that is not embedded.
type UnknownContextError struct{ URL string }

// Error returns the message.
func (e *UnknownContextError) Error() string {
	return fmt.Sprintf("the context %q is not known", e.URL)
}

// contextLoader loads the embedded contexts. The zero value is ready for use.
type contextLoader struct{}

var parsedContexts = sync.OnceValues(func() (map[string]any, error) {
	parsed := map[string]any{}
	for url, name := range contextNames {
		data, err := contextFiles.ReadFile("contexts/" + name)
		if err != nil {
			return nil, err
		}
		if parsed[url], err = ld.DocumentFromReader(bytes.NewReader(data)); err != nil {
			return nil, fmt.Errorf("reading %s: %w", name, err)
		}
	}
	return parsed, nil
})

// LoadDocument returns an embedded context, or an UnknownContextError.
func (contextLoader) LoadDocument(url string) (*ld.RemoteDocument, error) {
	parsed, err := parsedContexts()
	if err != nil {
		return nil, err
	}
	document, ok := parsed[url]
	if !ok {
		return nil, &UnknownContextError{url}
	}
	return &ld.RemoteDocument{DocumentURL: url, Document: document}, nil
}
