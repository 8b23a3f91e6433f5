package main

import (
	"bytes"
	"errors"
	"fmt"
	"image"
	_ "image/jpeg" // for the sizes of pictures
	_ "image/png"  // for the sizes of pictures
	"net/url"
	"os"
	"path"
	"path/filepath"
	"strings"
	"unicode"

	"github.com/yuin/goldmark"
	"github.com/yuin/goldmark/ast"
	"github.com/yuin/goldmark/extension"
	extensionast "github.com/yuin/goldmark/extension/ast"
	"github.com/yuin/goldmark/parser"
	markup "github.com/yuin/goldmark/renderer"
	"github.com/yuin/goldmark/text"
	"github.com/yuin/goldmark/util"
	"golang.org/x/net/html"

	"github.com/certvault/certvault/internal/web/help/book"
)

const pictureFolder = "docs/help/pictures"

// markdown supports the parts of GitHub's Markdown that the documentation uses. It does not render raw
// HTML.
var markdown = goldmark.New(
	goldmark.WithExtensions(extension.NewTable()),
	goldmark.WithParserOptions(parser.WithAutoHeadingID()),
	goldmark.WithRendererOptions(markup.WithNodeRenderers(util.Prioritized(nodes{}, 1))),
)

// document is a parsed page.
type document struct {
	text []byte
	root ast.Node
	ids  ids
}

func parse(content []byte) *document {
	d := &document{text: content, ids: ids{}}
	d.root = markdown.Parser().Parse(text.NewReader(content), parser.WithContext(parser.NewContext(parser.WithIDs(d.ids))))
	// A page has one heading of level 1. Some documents have more: all except the first become level 2.
	first := true
	for n := d.root.FirstChild(); n != nil; n = n.NextSibling() {
		if h, ok := n.(*ast.Heading); ok && h.Level == 1 {
			if !first {
				h.Level = 2
			}
			first = false
		}
	}
	return d
}

// ids are the ids of the headings of a page. They are the same as on GitHub.
type ids map[string]bool

// Generate returns the id of a heading.
func (l ids) Generate(value []byte, _ ast.NodeKind) []byte {
	id := strings.Map(func(c rune) rune {
		switch {
		case c == ' ':
			return '-'
		case unicode.In(c, unicode.L, unicode.M, unicode.N) || c == '-' || c == '_':
			return unicode.ToLower(c)
		}
		return -1
	}, string(bytes.TrimSpace(value)))
	base := id
	for n := 1; l[id] || id == ""; n++ {
		id = fmt.Sprintf("%s-%d", base, n)
	}
	l[id] = true
	return []byte(id)
}

// Put stores an id.
func (l ids) Put(value []byte) { l[string(value)] = true }

// renderer renders the pages. sources has all pages by their files, for the links between pages. pictures
// has the names of all pictures of the rendered pages.
type renderer struct {
	root     string
	sources  map[string]*source
	pictures map[string]bool
}

func (r *renderer) page(s *source) (*book.Page, error) {
	if err := r.link(s); err != nil {
		return nil, err
	}
	var b bytes.Buffer
	if err := markdown.Renderer().Render(&b, s.document.text, s.document.root); err != nil {
		return nil, err
	}
	p := &book.Page{HTML: b.String()}
	p.Sections = sections(p.HTML)
	if len(p.Sections) == 0 || p.Sections[0].Level != 1 {
		return nil, errors.New("the page must begin with a heading of level 1")
	}
	p.Title = p.Sections[0].Title
	return p, nil
}

// link replaces the paths of files in links and pictures with addresses of the vault. A link to a file
// that is not a page becomes text.
func (r *renderer) link(s *source) error {
	var errs []error
	var unlink []ast.Node
	err := ast.Walk(s.document.root, func(n ast.Node, entering bool) (ast.WalkStatus, error) {
		if !entering {
			return ast.WalkContinue, nil
		}
		switch n := n.(type) {
		case *ast.Link:
			to, err := r.destination(s, string(n.Destination))
			errs = append(errs, err)
			n.Destination = []byte(to)
			if to == "" {
				unlink = append(unlink, n)
			}
		case *ast.Image:
			errs = append(errs, r.picture(s, n))
		}
		return ast.WalkContinue, nil
	})
	for _, n := range unlink {
		parent := n.Parent()
		for n.FirstChild() != nil {
			parent.InsertBefore(parent, n, n.FirstChild())
		}
		parent.RemoveChild(parent, n)
	}
	return errors.Join(append(errs, err)...)
}

// destination returns the address for a link to a page of the vault, with the mark. For a heading of the same
// page, it returns only the fragment. It returns a URL with a scheme unchanged, and "" for a file that is
// not a page.
func (r *renderer) destination(s *source, to string) (string, error) {
	u, err := url.Parse(to)
	switch {
	case err != nil:
		return "", err
	case u.Scheme != "":
		return to, nil
	case strings.HasPrefix(to, "/"):
		address, rest, _ := strings.Cut(to, "#")
		if rest != "" {
			rest = "#" + rest
		}
		return address + book.Mark + rest, nil
	}
	target := s
	if u.Path != "" {
		file := path.Join(path.Dir(s.file), u.Path)
		target = r.sources[file]
		if target == nil {
			_, err := os.Stat(filepath.Join(r.root, file))
			return "", err
		}
	}
	if u.Fragment != "" && !target.document.ids[u.Fragment] {
		return "", fmt.Errorf("%s has no heading with the id %s", target.file, u.Fragment)
	}
	switch {
	case u.Fragment == "":
		return target.address + book.Mark, nil
	case target == s:
		return "#" + u.Fragment, nil
	}
	return target.address + book.Mark + "#" + u.Fragment, nil
}

// picture sets the address and the size of a picture.
func (r *renderer) picture(s *source, n *ast.Image) error {
	file := path.Join(path.Dir(s.file), string(n.Destination))
	if path.Dir(file) != pictureFolder {
		return fmt.Errorf("the picture %s is not in %s", file, pictureFolder)
	}
	f, err := os.Open(filepath.Join(r.root, file))
	if err != nil {
		return err
	}
	defer f.Close() //nolint:errcheck // it is only read
	c, _, err := image.DecodeConfig(f)
	if err != nil {
		return fmt.Errorf("%s: %w", file, err)
	}
	r.pictures[path.Base(file)] = true
	n.Destination = []byte("/help/pictures/" + path.Base(file))
	n.SetAttributeString("width", fmt.Append(nil, c.Width))
	n.SetAttributeString("height", fmt.Append(nil, c.Height))
	n.SetAttributeString("loading", []byte("lazy"))
	return nil
}

// nodes renders code and tables. Code blocks and tables can have the focus, so that a keyboard can scroll
// them on narrow screens. Code is left-to-right in every language.
type nodes struct{}

// RegisterFuncs registers the functions that render nodes.
func (nodes) RegisterFuncs(r markup.NodeRendererFuncRegisterer) {
	r.Register(ast.KindFencedCodeBlock, codeBlock)
	r.Register(ast.KindCodeBlock, codeBlock)
	r.Register(ast.KindCodeSpan, codeSpan)
	r.Register(ast.KindHTMLBlock, omit)
	r.Register(extensionast.KindTable, table)
	r.Register(extensionast.KindTableCell, cell)
}

func codeBlock(w util.BufWriter, content []byte, n ast.Node, entering bool) (ast.WalkStatus, error) {
	if !entering {
		return ast.WalkContinue, nil
	}
	_, _ = w.WriteString(`<pre dir="ltr" tabindex="0"><code>`)
	for i := range n.Lines().Len() {
		line := n.Lines().At(i)
		_, _ = w.WriteString(html.EscapeString(string(line.Value(content))))
	}
	_, _ = w.WriteString("</code></pre>\n")
	return ast.WalkSkipChildren, nil
}

// omit renders nothing. The HTML comments in the documentation are not for readers.
func omit(util.BufWriter, []byte, ast.Node, bool) (ast.WalkStatus, error) {
	return ast.WalkSkipChildren, nil
}

func codeSpan(w util.BufWriter, content []byte, n ast.Node, entering bool) (ast.WalkStatus, error) {
	if !entering {
		return ast.WalkContinue, nil
	}
	_, _ = w.WriteString(`<code dir="ltr">` + html.EscapeString(textOf(n, content)) + `</code>`)
	return ast.WalkSkipChildren, nil
}

func table(w util.BufWriter, content []byte, n ast.Node, entering bool) (ast.WalkStatus, error) {
	if !entering {
		_, _ = w.WriteString("</table></div>\n")
		return ast.WalkContinue, nil
	}
	label := ""
	for before := n.PreviousSibling(); before != nil; before = before.PreviousSibling() {
		if before.Kind() == ast.KindHeading {
			label = textOf(before, content)
			break
		}
	}
	_, _ = w.WriteString(`<div class="scroll" tabindex="0" role="group" aria-label="` + html.EscapeString(label) + `"><table>` + "\n")
	return ast.WalkContinue, nil
}

func cell(w util.BufWriter, content []byte, n ast.Node, entering bool) (ast.WalkStatus, error) {
	tag := "td"
	// A heading must have a text for screen readers, so an empty cell is not a heading.
	heading := n.Parent().Kind() == extensionast.KindTableHeader && textOf(n, content) != ""
	if heading {
		tag = "th"
	}
	switch {
	case !entering:
		_, _ = w.WriteString("</" + tag + ">")
	case heading:
		_, _ = w.WriteString(`<th scope="col">`)
	default:
		_, _ = w.WriteString("<td>")
	}
	return ast.WalkContinue, nil
}

// textOf returns the text of a node without markup.
func textOf(n ast.Node, content []byte) string {
	var b strings.Builder
	_ = ast.Walk(n, func(n ast.Node, entering bool) (ast.WalkStatus, error) { // the function returns no error
		if !entering {
			return ast.WalkContinue, nil
		}
		switch n := n.(type) {
		case *ast.Text:
			b.Write(n.Value(content))
			if n.SoftLineBreak() || n.HardLineBreak() {
				b.WriteByte(' ')
			}
		case *ast.String:
			b.Write(n.Value)
		}
		return ast.WalkContinue, nil
	})
	return b.String()
}

// sections returns the headings of a page, each with the text below it.
func sections(page string) (list []book.Section) {
	var b strings.Builder
	heading := false
	end := func(field *string) {
		*field = strings.Join(strings.Fields(b.String()), " ")
		b.Reset()
	}
	for z := html.NewTokenizer(strings.NewReader(page)); ; {
		kind := z.Next()
		token := z.Token()
		isHeading := len(token.Data) == 2 && token.Data[0] == 'h' && token.Data != "hr"
		switch kind {
		case html.ErrorToken:
			if len(list) > 0 {
				end(&list[len(list)-1].Text)
			}
			return list
		case html.StartTagToken:
			if !isHeading {
				b.WriteByte(' ')
				continue
			}
			if len(list) > 0 {
				end(&list[len(list)-1].Text)
			}
			s := book.Section{Level: int(token.Data[1] - '0')}
			for _, a := range token.Attr {
				if a.Key == "id" {
					s.ID = a.Val
				}
			}
			b.Reset()
			list, heading = append(list, s), true
		case html.EndTagToken:
			if isHeading && heading {
				end(&list[len(list)-1].Title)
				heading = false
			}
		case html.TextToken:
			b.WriteString(token.Data)
		case html.CommentToken, html.DoctypeToken, html.SelfClosingTagToken:
		}
	}
}
