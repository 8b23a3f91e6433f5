// Package help owns the help pages: the documentation in docs as pages below /help, with a search.
// The command gen renders the pages before the build and writes them to one compressed file, which the
// vault embeds. The vault decompresses the file at the first request for a page.
package help

import (
	"bytes"
	"embed"
	"html/template"
	"net/http"
	"strings"
	"sync"
	"time"

	"github.com/certvault/certvault/internal/limit"
	"github.com/certvault/certvault/internal/web"
	"github.com/certvault/certvault/internal/web/help/book"
	"github.com/certvault/certvault/internal/web/page"
)

//go:embed templates
var templates embed.FS

// Assets contains the style of the help pages.
//
//go:embed assets
var Assets embed.FS

//go:embed pages/book.json.zst
var packed []byte

//go:embed pages/pictures
var pictures embed.FS

// Root is the path of the home page of the help. All other help pages are below it.
const Root = "/help"

// Pages has the handlers of the help pages.
type Pages struct {
	Site  *page.Site
	Limit *limit.Counter

	view *page.Set
	read func() (*book.Book, error)
	find func() (*index, error)
}

// Handler returns the handler for all routes.
func (p *Pages) Handler() (http.Handler, error) {
	var err error
	if p.view, err = p.Site.Set(page.Options{
		Templates: templates, Styles: []string{"help.css"}, Indexed: []string{"home.html", "topic.html"},
		Funcs: template.FuncMap{"markup": markup},
	}); err != nil {
		return nil, err
	}
	p.read = sync.OnceValues(func() (*book.Book, error) { return book.Decode(packed) })
	p.find = sync.OnceValues(func() (*index, error) {
		b, err := p.read()
		if err != nil {
			return nil, err
		}
		return newIndex(b), nil
	})
	mux := http.NewServeMux()
	for pattern, f := range map[string]web.Func{
		"GET " + Root: p.home, "GET " + Root + "/{part}": p.part, "GET " + Root + "/{part}/{topic}": p.topic, "GET " + Root + "/pictures/{file}": p.picture,
	} {
		mux.Handle(pattern, web.Handler(p.view.Render, f))
	}
	return web.Throttled(p.Limit, p.view.Render, web.Routes(mux, p.view.Render)), nil
}

// markup replaces the marks in the content of a page, so that links keep the language that the address
// selects.
func markup(g *page.Page, content string) template.HTML {
	language := ""
	if g.Chosen {
		language = "?lang=" + g.Language.Tag
	}
	return template.HTML(strings.ReplaceAll(content, book.Mark, language)) //nolint:gosec // the vault embeds it
}

// card is the name of a part, with the links to its pages.
type card struct {
	Name   string
	Topics []topic
}

// topic is a link to a page. Language is the tag of the language of the title and the page.
type topic struct{ Path, Title, Language string }

// topicOf returns the link to a page in a language, or in English if the page is not translated.
func topicOf(part *book.Part, e *book.Entry, language string) topic {
	if e.Pages[language] == nil {
		language = english
	}
	return topic{Path: Root + "/" + part.Name + "/" + e.Name, Title: e.Pages[language].Title, Language: language}
}

const english = "en"

// topics returns the links to the pages of a part, without hidden pages.
func topics(part *book.Part, language string) (list []topic) {
	for i := range part.Entries {
		if !part.Entries[i].Hidden {
			list = append(list, topicOf(part, &part.Entries[i], language))
		}
	}
	return list
}

// home shows the parts, or the results of a search.
func (p *Pages) home(w http.ResponseWriter, r *http.Request) error {
	if r.URL.Query().Has("q") {
		return p.search(w, r)
	}
	b, err := p.read()
	if err != nil {
		return err
	}
	language := p.view.Reader(r).Language.Tag
	var cards []card
	for i := range b.Parts {
		cards = append(cards, card{b.Parts[i].Name, topics(&b.Parts[i], language)})
	}
	return p.view.Draw(w, r, http.StatusOK, "home.html", cards)
}

// part redirects to the first page of a part.
func (p *Pages) part(w http.ResponseWriter, r *http.Request) error {
	b, err := p.read()
	if err != nil {
		return err
	}
	part := b.Part(r.PathValue("part"))
	if part == nil {
		return page.ErrUnknown
	}
	return p.view.Redirect(w, r, p.view.Reader(r).Link(topics(part, english)[0].Path), "")
}

// shown is the data of a page.
type shown struct {
	*book.Page

	Part string
	// Language and Direction are those of the content.
	Language, Direction string
	// Topics are the links to the pages of the part, without hidden pages.
	Topics         []topic
	Path           string
	Previous, Next *topic
}

// Contents returns the sections of level 2, or nil if there are fewer than three.
func (s *shown) Contents() (list []book.Section) {
	for _, section := range s.Sections {
		if section.Level == 2 {
			list = append(list, section)
		}
	}
	const few = 3
	if len(list) < few {
		return nil
	}
	return list
}

// topic shows a page.
func (p *Pages) topic(w http.ResponseWriter, r *http.Request) error {
	b, err := p.read()
	if err != nil {
		return err
	}
	part := b.Part(r.PathValue("part"))
	if part == nil {
		return page.ErrUnknown
	}
	for i := range part.Entries {
		if e := &part.Entries[i]; e.Name == r.PathValue("topic") {
			return p.view.Draw(w, r, http.StatusOK, "topic.html", p.show(r, part, e))
		}
	}
	return page.ErrUnknown
}

func (p *Pages) show(r *http.Request, part *book.Part, e *book.Entry) *shown {
	l := p.view.Reader(r).Language
	link := topicOf(part, e, l.Tag)
	s := &shown{Page: e.Pages[link.Language], Part: part.Name, Language: link.Language, Direction: "ltr", Topics: topics(part, l.Tag), Path: link.Path}
	if link.Language == l.Tag {
		s.Direction = l.Direction
	}
	for i := range s.Topics {
		if s.Topics[i].Path != link.Path {
			continue
		}
		if i > 0 {
			s.Previous = &s.Topics[i-1]
		}
		if i+1 < len(s.Topics) {
			s.Next = &s.Topics[i+1]
		}
	}
	return s
}

// picture writes a picture of a page. A changed picture keeps its address, so browsers may cache a picture
// only for one hour.
func (p *Pages) picture(w http.ResponseWriter, r *http.Request) error {
	content, err := pictures.ReadFile("pages/pictures/" + r.PathValue("file"))
	if err != nil {
		return page.ErrUnknown
	}
	w.Header().Set("Cache-Control", "public, max-age=3600")
	http.ServeContent(w, r, r.PathValue("file"), time.Time{}, bytes.NewReader(content))
	return nil
}
