package cert

import (
	"context"
	"errors"
	"fmt"
	"sync"

	"github.com/certvault/certvault/internal/doctext"
	"github.com/certvault/certvault/internal/seal"
)

// TextReader reads the text of originals. seal.Sealer implements it.
type TextReader interface {
	Text(ctx context.Context, o seal.Original) (*seal.Text, error)
}

// maxTexts is the maximum total size, in bytes, of the texts of files that a Service keeps in memory.
const maxTexts = 2 << 20

// textCache maps the keys of files to the texts of the files.
type textCache struct {
	mu    sync.Mutex
	texts map[string]*seal.Text
	size  int
}

func (c *textCache) get(key string) *seal.Text {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.texts[key]
}

// put adds a text. If the size of all texts then exceeds maxTexts, put removes the other texts.
func (c *textCache) put(key string, t *seal.Text) {
	c.mu.Lock()
	defer c.mu.Unlock()
	const overhead = 200 // the memory of a text without lines, in bytes
	if c.size += t.Size() + overhead; c.texts == nil || c.size > maxTexts {
		c.texts, c.size = map[string]*seal.Text{}, t.Size()+overhead
	}
	c.texts[key] = t
}

// Suggest returns the names, issue dates and addresses that the text of a received file probably
// contains. The suggestion is empty if the file has no text.
func (s *Service) Suggest(ctx context.Context, f *File) (doctext.Suggestion, error) {
	t, err := s.text(ctx, f)
	if err != nil {
		return doctext.Suggestion{}, err
	}
	return t.Suggest(), nil
}

// LacksName reports whether a received file has text that does not contain a name. If so, a certificate
// with this file and this name gets the notice seal.NoticeNameNotInFile.
func (s *Service) LacksName(ctx context.Context, f *File, name string) (bool, error) {
	t, err := s.text(ctx, f)
	if err != nil {
		return false, err
	}
	return t.Lacks(name), nil
}

// text returns the text of a received file, and keeps it in memory for later calls.
func (s *Service) text(ctx context.Context, f *File) (_ *seal.Text, err error) {
	t := s.texts.get(f.Key)
	if t != nil {
		return t, nil
	}
	reader, ok := s.sealer.(TextReader)
	if !ok {
		return nil, errNoPreview
	}
	o, err := s.blobs.Open(ctx, f.Key)
	if err != nil {
		return nil, fmt.Errorf("opening a file: %w", err)
	}
	defer func() { err = errors.Join(err, o.Close()) }()
	if t, err = reader.Text(ctx, original(f, o)); err != nil {
		return nil, previewError(err)
	}
	s.texts.put(f.Key, t)
	return t, nil
}
