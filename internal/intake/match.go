package intake

import (
	"fmt"
	"path"
	"strings"

	"golang.org/x/text/cases"
	"golang.org/x/text/unicode/norm"
)

// shelf finds the files that rows name. People and programs disagree about case,
// about how letters with accents are composed, about folders and about the
// extension; what is still one file after all that is the one that is meant.
type shelf struct {
	// byPath, byName and byStem give the files of a path, of a name without folders,
	// and of a name without its extension.
	byPath, byName, byStem map[string][]*File
	folder                 cases.Caser
}

func newShelf(files []*File) *shelf {
	s := &shelf{byPath: map[string][]*File{}, byName: map[string][]*File{}, byStem: map[string][]*File{}, folder: cases.Fold()}
	for _, f := range files {
		whole := s.fold(f.Path)
		name := path.Base(whole)
		stem := strings.TrimSuffix(name, extension(name))
		s.byPath[whole] = append(s.byPath[whole], f)
		s.byName[name] = append(s.byName[name], f)
		s.byStem[stem] = append(s.byStem[stem], f)
	}
	return s
}

// fold gives a name in the form in which it is compared.
func (s *shelf) fold(name string) string {
	return strings.Join(strings.Fields(s.folder.String(norm.NFC.String(name))), " ")
}

// extension gives the end of a name that says what kind of file it is, "" where it
// says nothing.
func extension(name string) string {
	switch end := path.Ext(name); end {
	case ".pdf", ".jpg", ".jpeg", ".png":
		return end
	}
	return ""
}

// find gives the file that a name means, or what is wrong with the name.
func (s *shelf) find(name string) (*File, string) {
	if name == "" {
		return nil, "The row names no file."
	}
	wanted := strings.TrimPrefix(path.Clean("/"+s.fold(strings.ReplaceAll(name, `\`, "/"))), "/")
	base := path.Base(wanted)
	for _, found := range [][]*File{
		s.byPath[wanted], s.ending(s.byName[base], wanted), s.byName[base], s.byStem[base], s.byStem[strings.TrimSuffix(base, extension(base))],
	} {
		if len(found) == 1 {
			return found[0], ""
		}
		if len(found) > 1 {
			return nil, fmt.Sprintf("%d files have the name “%s”. Write it with its folder: “%s” or “%s”.", len(found), name, found[0].Path, found[1].Path)
		}
	}
	return nil, fmt.Sprintf("No file with the name “%s” was uploaded.", name)
}

// ending gives those of the files whose path ends in another, or is the end of it:
// a list and an archive seldom begin at the same folder.
func (s *shelf) ending(files []*File, wanted string) (list []*File) {
	if !strings.Contains(wanted, "/") {
		return nil
	}
	for _, f := range files {
		have := s.fold(f.Path)
		if strings.HasSuffix(have, "/"+wanted) || strings.HasSuffix(wanted, "/"+have) {
			list = append(list, f)
		}
	}
	return list
}
