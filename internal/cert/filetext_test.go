package cert

import (
	"context"
	"slices"
	"testing"

	"github.com/certvault/certvault/internal/db/dbtest"
	"github.com/certvault/certvault/internal/doctext"
	"github.com/certvault/certvault/internal/fault"
	"github.com/certvault/certvault/internal/seal"
)

// textSealer is a fakeSealer with a method Text, which refuses refuse.pdf and returns a fixed text for
// other files. It counts the calls of Text.
type textSealer struct {
	*fakeSealer

	reads int
}

func (s *textSealer) Text(_ context.Context, o seal.Original) (*seal.Text, error) {
	s.reads++
	if o.Name == "refuse.pdf" {
		return nil, &seal.Refusal{Code: "password", Reason: "The PDF needs a password."}
	}
	return seal.NewText([]doctext.Line{{Text: "awarded to Grace Hopper"}, {Text: "21 November 2026"}}, true), nil
}

// TestTextOfReceivedFile checks LacksName and Suggest, and that the text of a file is read once.
func TestTextOfReceivedFile(t *testing.T) {
	t.Parallel()
	reader := &textSealer{}
	v := newVault(t, dbtest.Open(t, t.TempDir(), ""), func(c *Config) {
		fake, ok := c.Sealer.(*fakeSealer)
		if !ok {
			t.Fatalf("the sealer is a %T, want a *fakeSealer", c.Sealer)
		}
		reader.fakeSealer = fake
		c.Sealer = reader
	})
	f := v.receive(v.inst, samplePDF("a diploma", 0))
	for name, want := range map[string]bool{"Grace Hopper": false, "HOPPER Grace": false, "Ada Lovelace": true} {
		if got, err := v.LacksName(t.Context(), f, name); err != nil || got != want {
			t.Errorf("LacksName(%q) = %v, %v, want %v", name, got, err, want)
		}
	}
	got, err := v.Suggest(t.Context(), f)
	if err != nil || !slices.Equal(got.Names, []string{"Grace Hopper"}) || !slices.Equal(got.Dates, []string{"2026-11-21"}) {
		t.Errorf("Suggest = %+v, %v, want the name and the date", got, err)
	}
	if reader.reads != 1 {
		t.Errorf("the text was read %d times, want once", reader.reads)
	}
	refused := *f
	refused.Name, refused.Key = "refuse.pdf", v.receive(v.inst, samplePDF("a diploma", 0)).Key
	if _, err := v.LacksName(t.Context(), &refused, "Ada"); fault.KindOf(err) != fault.Invalid {
		t.Errorf("error for a refused file = %v, want invalid", err)
	}
	for i := range maxTexts/200 + 1 {
		v.texts.put(string(rune(i)), seal.NewText(nil, true))
	}
	if v.texts.get(f.Key) != nil || v.texts.size > maxTexts {
		t.Errorf("the cache has %d bytes or still has the first text, want at most %d bytes without that text", v.texts.size, maxTexts)
	}
}

// TestSealerGetsTheRecipient checks that the sealer receives the recipient's name, and that a notice of
// the sealer is stored in the record.
func TestSealerGetsTheRecipient(t *testing.T) {
	t.Parallel()
	v := newVault(t, dbtest.Open(t, t.TempDir(), ""))
	v.sealer.seal = func(_ context.Context, o seal.Original, _ seal.Stamp) (*seal.Verified, error) {
		verified, err := sealed(o, []byte(tailText), false)
		if err == nil && o.Recipient == "Ada Obi" {
			verified.Notices = []seal.Notice{seal.NameNotice()}
		}
		return verified, err
	}
	c := v.approved(v.upload(nil))
	if !slices.Equal(c.Notices, []seal.Notice{seal.NameNotice()}) {
		t.Errorf("notices = %+v, want the one about the name", c.Notices)
	}
}
