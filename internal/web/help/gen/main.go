// Command gen renders the help pages from the Markdown files that docs/help/contents.txt lists, and writes
// the files that the binary embeds. A relative link to a missing file or heading is an error.
package main

import (
	"bufio"
	"bytes"
	"errors"
	"flag"
	"fmt"
	"os"
	"path"
	"path/filepath"
	"strings"

	"github.com/certvault/certvault/internal/web/help/book"
)

func main() {
	root := flag.String("root", ".", "folder of the repository")
	to := flag.String("to", "internal/web/help/pages", "folder of the result")
	flag.Parse()
	if err := run(*root, *to); err != nil {
		fmt.Fprintln(os.Stderr, "help:", err)
		os.Exit(1)
	}
}

// folder is the folder of contents.txt and of the pages that exist only for the help.
const folder = "docs/help"

// source is a page before it is rendered.
type source struct {
	// file is the path of the Markdown file in the repository.
	file string
	// address is the path of the page in the vault, such as /help/operator/install.
	address  string
	language string
	pages    map[string]*book.Page
	document *document
}

func run(root, to string) error {
	b, sources, err := contents(root)
	if err != nil {
		return err
	}
	bySource := map[string]*source{}
	for _, s := range sources {
		text, err := os.ReadFile(filepath.Join(root, s.file))
		if err != nil {
			return err
		}
		s.document = parse(text)
		bySource[s.file] = s
	}
	r := &renderer{root: root, sources: bySource, pictures: map[string]bool{}}
	var errs []error
	for _, s := range sources {
		p, err := r.page(s)
		if err != nil {
			errs = append(errs, fmt.Errorf("%s: %w", s.file, err))
		}
		s.pages[s.language] = p
	}
	if err := errors.Join(errs...); err != nil {
		return err
	}
	return write(root, to, b, r.pictures)
}

// write replaces the folder of the result with the book and its pictures.
func write(root, to string, b *book.Book, pictures map[string]bool) error {
	data, err := b.Encode()
	if err != nil {
		return err
	}
	if err := os.RemoveAll(to); err != nil {
		return err
	}
	if err := os.MkdirAll(filepath.Join(to, "pictures"), 0o755); err != nil { //nolint:gosec // a folder of the checkout
		return err
	}
	for name := range pictures {
		picture, err := os.ReadFile(filepath.Join(root, pictureFolder, name))
		if err != nil {
			return err
		}
		if err := os.WriteFile(filepath.Join(to, "pictures", name), picture, 0o644); err != nil { //nolint:gosec // the pictures are public
			return err
		}
	}
	return os.WriteFile(filepath.Join(to, "book.json.zst"), data, 0o644) //nolint:gosec // the pages are public
}

// contents reads docs/help/contents.txt. It returns the book, whose entries have no pages yet, and the
// sources of all pages.
func contents(root string) (*book.Book, []*source, error) {
	text, err := os.ReadFile(filepath.Join(root, folder, "contents.txt"))
	if err != nil {
		return nil, nil, err
	}
	languages, err := filepath.Glob(filepath.Join(root, "internal", "locale", "catalog", "*"))
	if err != nil {
		return nil, nil, err
	}
	if len(languages) == 0 {
		return nil, nil, errors.New("there are no languages")
	}
	b := &book.Book{}
	var sources []*source
	for lines := bufio.NewScanner(bytes.NewReader(text)); lines.Scan(); {
		line := strings.TrimSpace(lines.Text())
		if line == "" || strings.HasPrefix(line, "#") {
			continue
		}
		if name, isPart := strings.CutPrefix(line, "part "); isPart {
			name, translated := strings.CutSuffix(name, ", in all languages")
			b.Parts = append(b.Parts, book.Part{Name: name, Translated: translated})
			continue
		}
		if len(b.Parts) == 0 {
			return nil, nil, errors.New("contents.txt: a page is above the first part")
		}
		part := &b.Parts[len(b.Parts)-1]
		pattern, hidden := strings.CutSuffix(line, ", hidden")
		if !strings.HasSuffix(pattern, ".md") {
			pattern = path.Join(folder, part.Name, pattern+".md")
		}
		files, err := filepath.Glob(filepath.Join(root, pattern))
		if err != nil {
			return nil, nil, fmt.Errorf("contents.txt: %s: %w", pattern, err)
		}
		if len(files) == 0 {
			return nil, nil, fmt.Errorf("contents.txt: there is no file %s", pattern)
		}
		for _, file := range files {
			file, err := filepath.Rel(root, file)
			if err != nil {
				return nil, nil, err
			}
			file = filepath.ToSlash(file)
			if hidden && path.Base(file) == "README.md" {
				continue // a separate line of contents.txt lists the README
			}
			name := pageName(file)
			entry := book.Entry{Name: name, Hidden: hidden, Pages: map[string]*book.Page{}}
			part.Entries = append(part.Entries, entry)
			add := func(file, language string) {
				sources = append(sources, &source{file: file, address: "/help/" + part.Name + "/" + name, language: language, pages: entry.Pages})
			}
			add(file, "en")
			for _, l := range languages {
				// A test of package help reports a missing translation.
				tag := filepath.Base(l)
				translation := path.Join(folder, tag, part.Name, name+".md")
				if _, err := os.Stat(filepath.Join(root, translation)); part.Translated && err == nil {
					add(translation, tag)
				}
			}
		}
	}
	return b, sources, nil
}

// pageName returns the last part of the address of the page that a file contains. For README.md, it is
// the name of the folder.
func pageName(file string) string {
	name := strings.TrimSuffix(path.Base(file), ".md")
	if name == "README" {
		name = path.Base(path.Dir(file))
	}
	return strings.ToLower(name)
}
