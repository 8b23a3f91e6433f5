//go:build e2e

package e2e

import (
	"errors"
	"fmt"
	"io"
	"mime"
	"mime/multipart"
	"net/mail"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/certvault/certvault/test/vault"
)

// mailTime is the maximum wait for a mail.
const mailTime = 20 * time.Second

// letter is a parsed mail.
type letter struct {
	Header mail.Header
	// To is the only recipient.
	To, Subject, Text, HTML string
	// Pictures are the types of the inline pictures.
	Pictures []string
	// Size is the size of the whole mail in bytes.
	Size int
}

// letters returns the mails in the outbox of a vault, beginning with the oldest.
func letters(t *testing.T, v *vault.Vault) (list []letter) {
	t.Helper()
	files, err := filepath.Glob(filepath.Join(v.Data, "outbox", "*.eml"))
	if err != nil {
		t.Fatal(err)
	}
	age := func(file string) time.Time {
		info, err := os.Stat(file)
		if err != nil {
			t.Fatal(err)
		}
		return info.ModTime()
	}
	slices.SortFunc(files, func(a, b string) int { return age(a).Compare(age(b)) })
	for _, file := range files {
		text, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		l, err := readLetter(string(text))
		if err != nil {
			t.Fatalf("reading the mail %s: %v", file, err)
		}
		list = append(list, l)
	}
	return list
}

func readLetter(text string) (letter, error) {
	m, err := mail.ReadMessage(strings.NewReader(text))
	if err != nil {
		return letter{}, err
	}
	l := letter{Header: m.Header, Size: len(text)}
	if l.Subject, err = new(mime.WordDecoder).DecodeHeader(m.Header.Get("Subject")); err != nil {
		return letter{}, err
	}
	to, err := m.Header.AddressList("To")
	if err != nil {
		return letter{}, err
	}
	if len(to) != 1 {
		return letter{}, fmt.Errorf("recipients %v, want one", to)
	}
	l.To = to[0].Address
	kind, params, err := mime.ParseMediaType(m.Header.Get("Content-Type"))
	if err != nil {
		return letter{}, err
	}
	if kind != "multipart/alternative" {
		return letter{}, fmt.Errorf("content type %s, want multipart/alternative", kind)
	}
	err = l.read(multipart.NewReader(m.Body, params["boundary"]))
	return l, err
}

// read reads the parts of a mail. The HTML may be in a multipart/related part, together with its
// pictures.
func (l *letter) read(parts *multipart.Reader) error {
	for {
		part, err := parts.NextPart()
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return err
		}
		kind, params, err := mime.ParseMediaType(part.Header.Get("Content-Type"))
		if err != nil {
			return err
		}
		if kind == "multipart/related" {
			if err := l.read(multipart.NewReader(part, params["boundary"])); err != nil {
				return err
			}
			continue
		}
		body, err := io.ReadAll(part)
		if err != nil {
			return err
		}
		switch kind {
		case "text/plain":
			l.Text = string(body)
		case "text/html":
			l.HTML = string(body)
		default:
			l.Pictures = append(l.Pictures, kind)
		}
	}
}

// awaitLetter waits until the subject or the plain text of a mail to an address contains text. It returns
// the latest of these mails.
func awaitLetter(t *testing.T, v *vault.Vault, to, text string) letter {
	t.Helper()
	end := time.NewTimer(mailTime)
	defer end.Stop()
	tick := time.NewTicker(50 * time.Millisecond)
	defer tick.Stop()
	for {
		for _, l := range slices.Backward(letters(t, v)) {
			if l.To == to && (strings.Contains(l.Text, text) || strings.Contains(l.Subject, text)) {
				return l
			}
		}
		select {
		case <-end.C:
			t.Fatalf("no mail to %s contains %q in its subject or plain text", to, text)
		case <-tick.C:
		}
	}
}

// awaitLink waits for a mail to an address with a link to the vault whose path begins with path, and
// returns the link.
func awaitLink(t *testing.T, v *vault.Vault, to, path string) string {
	t.Helper()
	end := time.NewTimer(mailTime)
	defer end.Stop()
	tick := time.NewTicker(50 * time.Millisecond)
	defer tick.Stop()
	for {
		for _, l := range letters(t, v) {
			_, after, ok := strings.Cut(l.Text, v.URL+path)
			if !ok || l.To != to {
				continue
			}
			return v.URL + path + strings.Fields(after)[0]
		}
		select {
		case <-end.C:
			t.Fatalf("no mail to %s contains a link that begins with %s", to, path)
		case <-tick.C:
		}
	}
}
