package public

import (
	"image"
	"image/png"
	"net/http"
	"slices"
	"strings"
	"testing"

	"github.com/certvault/certvault/internal/db/dbtest"
)

func TestOpenGraph(t *testing.T) {
	t.Parallel()
	v := newVault(t, dbtest.SQLite(t))
	c := v.upload("BSc Physics", "Ada Obi", "diploma.pdf")
	if w := v.get("/verify/" + c.ReferenceID + "/card.png"); w.Code != http.StatusNotFound {
		t.Errorf("in processing there is a card: %d", w.Code)
	}
	if text := v.get("/verify/" + c.ReferenceID).Body.String(); strings.Contains(text, "og:") {
		t.Errorf("the page of a certificate in processing has a preview: %s", text)
	}
	v.Work(1)
	w := v.get("/verify/" + c.ReferenceID)
	if content := attributes(t, w, "meta", "content"); !slices.Contains(content, base+"/verify/"+c.ReferenceID+"/card.png") || !slices.Contains(content, "BSc Physics · Ada Obi") || !slices.Contains(content, "noindex") {
		t.Errorf("the preview has %v", content)
	}
	card := func() image.Image {
		t.Helper()
		w := v.get("/verify/" + c.ReferenceID + "/card.png")
		m, err := png.Decode(w.Body)
		if err != nil || w.Header().Get("Content-Type") != "image/png" || w.Header().Get("Cache-Control") != "no-store" || m.Bounds() != image.Rect(0, 0, 1200, 630) {
			t.Fatalf("the card: %d %v, %v", w.Code, w.Header(), err)
		}
		return m
	}
	valid := card()
	v.revoke(c, "x")
	if top := card().At(10, 10); top == valid.At(10, 10) {
		t.Error("the card of a revoked certificate looks like that of another")
	}
	for _, target := range []string{"/verify", "/signatures"} {
		if w := v.get(target); w.Header().Get("X-Robots-Tag") != "" || slices.Contains(attributes(t, w, "meta", "content"), "noindex") {
			t.Errorf("%s is hidden from search engines", target)
		}
	}
	for _, target := range []string{"/verify/" + c.ReferenceID, "/verify/" + unknownID, "/nothing", "/verify/file/" + digestOf("x")} {
		if w := v.get(target); w.Header().Get("X-Robots-Tag") != "noindex" {
			t.Errorf("%s may be found by search engines", target)
		}
	}
}

// A text that the card's fonts do not cover is left out and never drawn as boxes.
func TestDrawable(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]bool{
		"Ada Obi": true, "Zoë Šimůnek": true, "Łukasz Żółć": true, "Ελένη": true, "Дарья": true, "ليلى": false, "陈伟": false, "अदिति": false, "Ada 🎓": false, "": false, " ": false,
	} {
		if drawable(text) != want {
			t.Errorf("%q: %v", text, !want)
		}
	}
	d := &drawing{Image: image.NewNRGBA(image.Rect(0, 0, 10, 10))}
	if lines := d.wrap("one two three four five six seven eight nine ten", 60, true, 300, 2); len(lines) != 2 || strings.Join(lines, " ") != "one two three four five six seven eight nine ten" {
		t.Errorf("wrapped: %q", lines)
	}
	if got := shorten("abcdef", func(s string) bool { return len([]rune(s)) <= 4 }); got != "abc…" {
		t.Errorf("shortened: %q", got)
	}
}
