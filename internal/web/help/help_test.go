package help

import (
	"context"
	"io/fs"
	"net/http"
	"net/http/httptest"
	"net/url"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"golang.org/x/net/html"

	"github.com/certvault/certvault/internal/limit"
	"github.com/certvault/certvault/internal/locale"
	"github.com/certvault/certvault/internal/web/help/book"
	"github.com/certvault/certvault/internal/web/page"
)

var placeholder = regexp.MustCompile(`\{[a-z_]+\}`)

// manual has the handler of the help pages, and their book.
type manual struct {
	t       *testing.T
	handler http.Handler
	book    *book.Book
	catalog *locale.Catalog
}

func newManual(t *testing.T) *manual {
	t.Helper()
	catalog, err := locale.Load()
	if err != nil {
		t.Fatal(err)
	}
	site, err := page.NewSite(catalog, Assets)
	if err != nil {
		t.Fatal(err)
	}
	p := &Pages{Site: site, Limit: limit.NewCounter(0, time.Now)}
	handler, err := p.Handler()
	if err != nil {
		t.Fatal(err)
	}
	if err := site.Check(); err != nil {
		t.Fatal(err)
	}
	b, err := p.read()
	if err != nil {
		t.Fatal(err)
	}
	return &manual{t, handler, b, catalog}
}

func (m *manual) get(target string) *httptest.ResponseRecorder {
	w := httptest.NewRecorder()
	m.handler.ServeHTTP(w, httptest.NewRequestWithContext(context.Background(), http.MethodGet, target, http.NoBody))
	return w
}

func elements(t *testing.T, markup string) (list []*html.Node) {
	t.Helper()
	doc, err := html.Parse(strings.NewReader(markup))
	if err != nil {
		t.Fatal(err)
	}
	for n := range doc.Descendants() {
		if n.Type == html.ElementNode {
			list = append(list, n)
		}
	}
	return list
}

func attribute(n *html.Node, key string) string {
	for _, a := range n.Attr {
		if a.Key == key {
			return a.Val
		}
	}
	return ""
}

// all calls f for each page in each of its languages.
func (m *manual) all(f func(path, language string, p *book.Page, translated bool)) {
	for _, part := range m.book.Parts {
		for _, e := range part.Entries {
			for tag, p := range e.Pages {
				f(Root+"/"+part.Name+"/"+e.Name, tag, p, part.Translated)
			}
		}
	}
}

// TestLinks checks that each page is shown in its language. It also checks that each link to a help
// page, except a link with hreflang, has a language, and that the page and the id in the fragment exist.
func TestLinks(t *testing.T) {
	t.Parallel()
	m := newManual(t)
	ids := map[string][]string{}
	links := map[string]bool{}
	m.all(func(path, language string, _ *book.Page, _ bool) {
		target := path + "?lang=" + language
		w := m.get(target)
		if w.Code != http.StatusOK || w.Header().Get("Content-Language") != language || strings.Contains(w.Body.String(), book.Mark) || strings.Contains(w.Body.String(), "<!--") {
			t.Errorf("%s: status = %d, header %v; want 200, the language of the page, no marks and no comments", target, w.Code, w.Header())
		}
		titles := 0
		for _, n := range elements(t, w.Body.String()) {
			if id := attribute(n, "id"); id != "" {
				if slices.Contains(ids[target], id) {
					t.Errorf("%s has two elements with the id %s", target, id)
				}
				ids[target] = append(ids[target], id)
			}
			if n.Data == "h1" {
				titles++
			}
			to := attribute(n, "href")
			if strings.HasPrefix(to, "#") {
				to = target + to
			}
			if n.Data == "a" && strings.HasPrefix(to, Root) && attribute(n, "hreflang") == "" {
				links[to] = true
			}
			if source := attribute(n, "src"); n.Data == "img" && strings.HasPrefix(source, Root) {
				if got := m.get(source); got.Code != http.StatusOK || attribute(n, "alt") == "" {
					t.Errorf("%s: the picture %s has the status %d and the text %q, want 200 and a text", target, source, got.Code, attribute(n, "alt"))
				}
			}
		}
		if titles != 1 {
			t.Errorf("%s has %d headings of level 1, want 1", target, titles)
		}
	})
	for to := range links {
		address, anchor, _ := strings.Cut(to, "#")
		u, err := url.Parse(address)
		if err != nil || u.Query().Get("lang") == "" {
			t.Errorf("the link %s has no language, want the parameter lang; error %v", to, err)
		}
		if u.Path == Root {
			continue
		}
		if w := m.get(address); w.Code != http.StatusOK || anchor != "" && !strings.Contains(w.Body.String(), `id="`+anchor+`"`) && !slices.Contains(ids[address], mustUnescape(anchor)) {
			t.Errorf("the link %s: status = %d, want 200 and a page with the id in the fragment", to, w.Code)
		}
	}
}

func mustUnescape(s string) string {
	text, err := url.PathUnescape(s)
	if err != nil {
		return s
	}
	return text
}

// TestTranslations checks that each translated page exists in every language, with the same sequence of
// headings, lists, table rows, pictures and code blocks.
func TestTranslations(t *testing.T) {
	t.Parallel()
	m := newManual(t)
	outline := func(p *book.Page) (list []string) {
		for _, n := range elements(t, p.HTML) {
			if slices.Contains([]string{"h1", "h2", "h3", "ol", "ul", "li", "tr", "img", "pre"}, n.Data) {
				list = append(list, n.Data+attribute(n, "src"))
			}
		}
		return list
	}
	for _, part := range m.book.Parts {
		for _, e := range part.Entries {
			for _, l := range m.catalog.Languages() {
				p := e.Pages[l.Tag]
				switch {
				case p == nil && part.Translated:
					t.Errorf("docs/help/%s/%s/%s.md is missing", l.Tag, part.Name, e.Name)
				case p != nil && !slices.Equal(outline(p), outline(e.Pages[english])):
					t.Errorf("docs/help/%s/%s/%s.md: elements =\n%q, want those of the English page:\n%q", l.Tag, part.Name, e.Name, outline(p), outline(e.Pages[english]))
				}
			}
		}
	}
}

// TestLabels checks that each bold text of a translated page is a text of the interface in the same
// language. The page has "…" in place of each placeholder.
func TestLabels(t *testing.T) {
	t.Parallel()
	m := newManual(t)
	texts := map[string]map[string]bool{}
	for _, l := range m.catalog.Languages() {
		texts[l.Tag] = map[string]bool{}
		previous := ""
		for _, key := range l.Keys() {
			section, _, _ := strings.Cut(key, ".")
			if section == previous {
				continue
			}
			previous = section
			for _, text := range l.Section(section) {
				texts[l.Tag][placeholder.ReplaceAllString(text, "…")] = true
			}
		}
	}
	count := 0
	m.all(func(path, language string, p *book.Page, translated bool) {
		// Markdown does not always render asterisks next to punctuation as bold text.
		if translated && strings.Contains(p.HTML, "**") {
			t.Errorf("%s in %s has asterisks that are not rendered", path, language)
		}
		for _, n := range elements(t, p.HTML) {
			if !translated || n.Data != "strong" || n.FirstChild == nil {
				continue
			}
			count++
			if label := n.FirstChild.Data; !texts[language][label] {
				t.Errorf("%s in %s: %q is not a text of the interface in this language", path, language, label)
			}
		}
	})
	if count == 0 {
		t.Error("no translated page has a bold text, want at least one")
	}
}

func TestSearch(t *testing.T) {
	t.Parallel()
	m := newManual(t)
	for _, tc := range []struct{ query, language, first string }{
		{"revoke", "en", "/help/registrar/correct#revoke"},
		{"REVOKE  reason", "en", "/help/registrar/correct#revoke"},
		{"n8n crypto", "en", "/help/integrator/n8n"},
		{"readyz", "de", "/help/operator/"},
		{"cle SIGNATURE", "fr", "/help/registrar/"},
		{"二维码", "zh", "/help/re"},
		{"إلغاء الشهادة", "ar", "/help/registrar/correct"},
		{"no-such-word", "en", ""},
		{"revoke no-such-word", "en", ""},
	} {
		w := m.get("/help?lang=" + tc.language + "&q=" + url.QueryEscape(tc.query))
		got := ""
		for _, n := range elements(t, w.Body.String()) {
			if n.Data == "a" && n.Parent.Data == "h2" && n.Parent.Parent.Data == "li" {
				got = strings.Replace(attribute(n, "href"), "?lang="+tc.language, "", 1)
				break
			}
		}
		if w.Code != http.StatusOK || !strings.HasPrefix(got, tc.first) || tc.first == "" && got != "" {
			t.Errorf("%q in %s: status = %d, first result %q, want 200 and the prefix %q (if empty, no result)", tc.query, tc.language, w.Code, got, tc.first)
		}
	}
	if w := m.get("/help?q=" + strings.Repeat("x", 101)); w.Code != http.StatusBadRequest {
		t.Errorf("a long query: status = %d, want 400", w.Code)
	}
	if w := m.get("/help?q=%3Cb%3E"); strings.Contains(w.Body.String(), "<b>") {
		t.Errorf("the page contains the query as markup, want it escaped: %s", w.Body)
	}
}

// TestUntranslatedPages checks that the content of a page that exists only in English is marked as
// English, even if the reader has another language.
func TestUntranslatedPages(t *testing.T) {
	t.Parallel()
	m := newManual(t)
	body := m.get("/help/operator/operations?lang=ar").Body.String()
	for _, want := range []string{`<html lang="ar" dir="rtl">`, `<article lang="en" dir="ltr">`} {
		if !strings.Contains(body, want) {
			t.Errorf("the page does not contain %s", want)
		}
	}
	if w := m.get("/help/operator?lang=ar"); w.Code != http.StatusSeeOther || w.Header().Get("Location") != "/help/operator/first-hour?lang=ar" {
		t.Errorf("the address of a part: status = %d, header %v, want 303 to its first page", w.Code, w.Header())
	}
	for _, path := range []string{"/help/unknown", "/help/operator/unknown", "/help/pictures/unknown.png", "/help/pictures/..%2Fbook.json.zst"} {
		if w := m.get(path); w.Code != http.StatusNotFound {
			t.Errorf("%s: status = %d, want 404", path, w.Code)
		}
	}
}

// maxPictures is the maximum total size of the pictures in bytes.
const maxPictures = 600_000

func TestPicturesAreSmall(t *testing.T) {
	t.Parallel()
	size := int64(0)
	err := fs.WalkDir(pictures, ".", func(_ string, e fs.DirEntry, err error) error {
		if err != nil || e.IsDir() {
			return err
		}
		info, err := e.Info()
		if err == nil {
			size += info.Size()
		}
		return err
	})
	if err != nil || size == 0 || size > maxPictures {
		t.Errorf("the pictures have %d bytes, want 1 to %d; error %v", size, maxPictures, err)
	}
}

func BenchmarkSearch(b *testing.B) {
	all, err := book.Decode(packed)
	if err != nil {
		b.Fatal(err)
	}
	x := newIndex(all)
	for b.Loop() {
		x.search("certificate revoked", english)
	}
}
