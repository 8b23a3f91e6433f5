package template

import (
	"context"
	"crypto/sha256"
	"encoding/json"
	"fmt"
	"strings"
	"sync"

	"github.com/certvault/certvault/internal/account"
	"github.com/certvault/certvault/internal/cert"
	"github.com/certvault/certvault/internal/design"
	"github.com/certvault/certvault/internal/design/builtin"
)

// BuiltInPicture draws the first page of a built-in design with sample texts as PNG, with the paper,
// the accent and the language of n. side is the longer side in pixels. The error is fault.Invalid if there
// is no such design, paper, colour or language.
func (s *Service) BuiltInPicture(ctx context.Context, n NewTemplate, side int) ([]byte, error) {
	inst := n.Institution
	fonts, ids, err := s.institutionFonts(ctx, inst.ID)
	if err != nil {
		return nil, err
	}
	mark, err := account.LogoPNG(ctx, s.db, inst.ID)
	if err != nil {
		return nil, err
	}
	if n.Accent, err = s.accentText(ctx, &n); err != nil {
		return nil, err
	}
	text, err := json.Marshal([]any{inst.ID, inst.Name, inst.Prefix, sha256.Sum256(mark), ids, n.BuiltIn, n.Paper, n.Accent, n.Language, side})
	if err != nil {
		return nil, fmt.Errorf("encoding what a picture shows: %w", err)
	}
	key := sha256.Sum256(text)
	if picture := s.gallery.get(key); picture != nil {
		return picture, nil
	}
	release, err := s.acquire(ctx)
	if err != nil {
		return nil, err
	}
	defer release()
	d, l, err := s.builtIn(ctx, &n)
	if err != nil {
		return nil, err
	}
	base, err := design.Publish(d, l, fonts, s.pictures(ctx, inst.ID))
	if err != nil {
		return nil, publishError(err)
	}
	t, err := design.Open(base.PDF, base.Plan, l, fonts)
	if err != nil {
		return nil, fmt.Errorf("opening a built-in design: %w", err)
	}
	language, _, _ := strings.Cut(l.Language, "-")
	values := design.SampleIn(language).Values
	values.Institution, values.Reference, values.Language = inst.Name, cert.SampleReference(inst.Prefix), ""
	values.Title, values.Details = builtin.Sample(language)
	file, err := s.sealed(ctx, inst, t, base.PDF, l.Fill(values), true)
	if err != nil {
		return nil, err
	}
	picture, err := s.render(ctx, file, 1, side)
	if err == nil {
		s.gallery.put(key, picture)
	}
	return picture, err
}

// gallery is a cache of pictures of built-in designs. The keys are digests of the input of the drawing.
// Pictures are added to young. When young is full, its map replaces the map in older, and young gets a new
// map. A picture that is found in older is added to young.
type gallery struct {
	mu           sync.Mutex
	young, older map[[sha256.Size]byte][]byte
}

// maxGallery is the maximum number of pictures in young, and in older. A picture has about 60 kB.
const maxGallery = 64

func (g *gallery) get(key [sha256.Size]byte) []byte {
	g.mu.Lock()
	defer g.mu.Unlock()
	if picture := g.young[key]; picture != nil {
		return picture
	}
	picture := g.older[key]
	if picture != nil {
		g.store(key, picture)
	}
	return picture
}

func (g *gallery) put(key [sha256.Size]byte, picture []byte) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.store(key, picture)
}

func (g *gallery) store(key [sha256.Size]byte, picture []byte) {
	if g.young == nil || len(g.young) >= maxGallery {
		g.older, g.young = g.young, make(map[[sha256.Size]byte][]byte, maxGallery)
	}
	g.young[key] = picture
}
