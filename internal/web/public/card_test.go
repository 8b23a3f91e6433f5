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
	if testing.Short() {
		t.Skip("the test has nothing concurrent for the race detector; make test/long runs it")
	}
	t.Parallel()
	v := newVault(t, dbtest.SQLite(t))
	c := v.upload("BSc Physics", "Ada Obi", "diploma.pdf")
	if w := v.get("/verify/" + c.ReferenceID + "/card.png"); w.Code != http.StatusNotFound {
		t.Errorf("the card of a certificate in processing: status = %d, want 404", w.Code)
	}
	if text := v.get("/verify/" + c.ReferenceID).Body.String(); strings.Contains(text, "og:") {
		t.Errorf("the page of a certificate in processing has a preview: %s", text)
	}
	v.Work(1)
	w := v.get("/verify/" + c.ReferenceID)
	if content := attributes(t, w, "meta", "content"); !slices.Contains(content, base+"/verify/"+c.ReferenceID+"/card.png") || !slices.Contains(content, "BSc Physics · Ada Obi") || !slices.Contains(content, "noindex") {
		t.Errorf("the contents of the meta elements are %v, want the URL of the card, the title with the name, and noindex", content)
	}
	card := func() image.Image {
		t.Helper()
		w := v.get("/verify/" + c.ReferenceID + "/card.png")
		m, err := png.Decode(w.Body)
		if err != nil || w.Header().Get("Content-Type") != "image/png" || w.Header().Get("Cache-Control") != "no-store" || m.Bounds() != image.Rect(0, 0, 1200, 630) {
			t.Fatalf("the card: status = %d, header %v, error %v, want a PNG of 1200 x 630 pixels with Cache-Control: no-store", w.Code, w.Header(), err)
		}
		return m
	}
	valid := card()
	v.revoke(c, "x")
	if top := card().At(10, 10); top == valid.At(10, 10) {
		t.Error("the cards of a valid and a revoked certificate have the same colour")
	}
	for _, target := range []string{"/verify", "/signatures"} {
		if w := v.get(target); w.Header().Get("X-Robots-Tag") != "" || slices.Contains(attributes(t, w, "meta", "content"), "noindex") {
			t.Errorf("%s has noindex, want a page that may be indexed", target)
		}
	}
	for _, target := range []string{"/verify/" + c.ReferenceID, "/verify/" + unknownID, "/nothing", "/verify/file/" + digestOf("x")} {
		if w := v.get(target); w.Header().Get("X-Robots-Tag") != "noindex" {
			t.Errorf("%s: X-Robots-Tag = %q, want noindex", target, w.Header().Get("X-Robots-Tag"))
		}
	}
}

// The card omits a text if its fonts lack a character of the text.
func TestDrawable(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]bool{
		"Ada Obi": true, "Zoë Šimůnek": true, "Łukasz Żółć": true, "Ελένη": true, "Дарья": true, "ليلى": false, "陈伟": false, "अदिति": false, "Ada 🎓": false, "": false, " ": false,
	} {
		if drawable(text) != want {
			t.Errorf("drawable(%q) = %v, want %v", text, !want, want)
		}
	}
	d := &drawing{Image: image.NewNRGBA(image.Rect(0, 0, 10, 10))}
	if lines := d.wrap("one two three four five six seven eight nine ten", 60, true, 300, 2); len(lines) != 2 || strings.Join(lines, " ") != "one two three four five six seven eight nine ten" {
		t.Errorf("wrap = %q, want the ten words on two lines", lines)
	}
	if got := shorten("abcdef", func(s string) bool { return len([]rune(s)) <= 4 }); got != "abc…" {
		t.Errorf("shorten = %q, want abc…", got)
	}
}
