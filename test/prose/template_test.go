package prose

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"text/template/parse"
	"unicode"

	"golang.org/x/net/html"
)

// names are the texts that are the same in all languages.
var names = []string{"Certvault", "SHA-256", "QR", "UTC", "CSV", "PDF", "ZIP", "JSON Lines", "JSON", "PEM", "URL", "API", "UUID", "Standard Webhooks", "https://", "Go", "J", "K"}

// visible are the attributes whose values people read or hear. textsIn also checks the attribute value of
// buttons.
var visible = []string{
	"alt", "title", "aria-label", "aria-description", "aria-roledescription", "placeholder", "label", "data-copied", "data-reading", "data-large", "data-unreadable",
	"data-denied", "data-foreign", "data-failed",
}

// TestTemplateTexts checks that the texts of all templates come from the catalog. The pages about the
// API are in English only.
func TestTemplateTexts(t *testing.T) {
	t.Parallel()
	root := filepath.Join("..", "..", "internal", "web")
	files, err := filepath.Glob(filepath.Join(root, "*", "templates", "*.html"))
	if err != nil || len(files) == 0 {
		t.Fatalf("there are no templates in %s, error %v", root, err)
	}
	for _, file := range files {
		name, _ := filepath.Rel(root, file)
		if strings.HasPrefix(name, "openapi") {
			continue
		}
		source, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		texts, err := textsOf(string(source))
		if err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		if len(texts) > 0 {
			t.Errorf("%s has texts that are not in the catalog: %q", name, texts)
		}
	}
}

// textsOf returns the texts that people read in the source of a template. It ignores the actions of the
// template.
func textsOf(source string) ([]string, error) {
	trees := map[string]*parse.Tree{}
	tree := parse.New("page")
	tree.Mode = parse.SkipFuncCheck
	if _, err := tree.Parse(source, "", "", trees); err != nil {
		return nil, err
	}
	var texts []string
	for _, t := range trees {
		var markup strings.Builder
		write(&markup, t.Root)
		texts = append(texts, textsIn(markup.String())...)
	}
	slices.Sort(texts)
	return texts, nil
}

// write writes the markup of a node, without the actions.
func write(b *strings.Builder, n parse.Node) {
	branch := func(n *parse.BranchNode) {
		write(b, n.List)
		if n.ElseList != nil {
			b.WriteByte(' ')
			write(b, n.ElseList)
		}
	}
	switch n := n.(type) {
	case *parse.ListNode:
		for _, child := range n.Nodes {
			write(b, child)
		}
	case *parse.TextNode:
		b.Write(n.Text)
	case *parse.IfNode:
		branch(&n.BranchNode)
	case *parse.RangeNode:
		branch(&n.BranchNode)
	case *parse.WithNode:
		branch(&n.BranchNode)
	}
}

// textsIn returns the texts of markup. It ignores the elements code and kbd, whose texts are the same in
// all languages.
func textsIn(markup string) (texts []string) {
	add := func(text string) {
		rest := text
		for _, name := range names {
			rest = strings.ReplaceAll(rest, name, "")
		}
		if strings.IndexFunc(rest, unicode.IsLetter) >= 0 {
			texts = append(texts, strings.TrimSpace(text))
		}
	}
	code := 0
	// The tokenizer returns the contents of a noscript element as one text, so the tags of the element are
	// removed.
	markup = strings.NewReplacer("<noscript>", "", "</noscript>", "").Replace(markup)
	for z := html.NewTokenizer(strings.NewReader(markup)); ; {
		kind := z.Next()
		token := z.Token()
		switch kind {
		case html.ErrorToken:
			return texts
		case html.TextToken:
			// A template may consist of attributes only, without a tag.
			if code == 0 && !strings.HasPrefix(token.Data, "data-") {
				add(token.Data)
			}
		case html.EndTagToken:
			if token.Data == "code" || token.Data == "kbd" {
				code--
			}
		case html.StartTagToken, html.SelfClosingTagToken:
			if token.Data == "code" || token.Data == "kbd" {
				code++
			}
			button := slices.ContainsFunc(token.Attr, func(a html.Attribute) bool { return a.Key == "type" && (a.Val == "submit" || a.Val == "button") })
			for _, a := range token.Attr {
				if slices.Contains(visible, a.Key) || a.Key == "value" && token.Data == "input" && button {
					add(a.Val)
				}
			}
		case html.CommentToken, html.DoctypeToken:
		}
	}
}

func TestTextsOf(t *testing.T) {
	t.Parallel()
	for source, want := range map[string][]string{
		`<p class="note">{{.T "a.b"}}</p>`:                                                  nil,
		`<p>{{if .A}}Yes{{else}}No{{end}}</p>`:                                              {"Yes No"},
		`{{define "x"}}<input value="A" placeholder="Name"{{if .B}} checked{{end}}>{{end}}`: {"Name"},
		`<input type="submit" value="Save">`:                                                {"Save"},
		`<p>{{.A}} · Certvault <code>certvault verify</code> &copy; 2026</p>`:               nil,
		`<img alt="A picture of {{.Name}}">{{range .L}}, and {{.}}{{end}}`:                  {"A picture of", ", and"},
	} {
		got, err := textsOf(source)
		slices.Sort(want)
		if err != nil || !slices.Equal(got, want) {
			t.Errorf("textsOf(%s) = %q, error %v, want %q", source, got, err, want)
		}
	}
}
