package intake

import (
	"path"
	"strings"

	"golang.org/x/text/cases"
	"golang.org/x/text/unicode/norm"

	"github.com/certvault/certvault/internal/cert"
	"github.com/certvault/certvault/internal/sheet"
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

// fileProblem returns a problem of the name of a row's file.
func fileProblem(p cert.Problem, paths ...string) *Problem {
	p.Field = cert.FieldFile
	return &Problem{Column: sheet.File, Paths: paths, Problem: p}
}

// find returns the file that a name means, or the problem of the name.
func (s *shelf) find(name string) (*File, *Problem) {
	if name == "" {
		return nil, fileProblem(cert.Problem{Code: cert.CodeRequired})
	}
	wanted := strings.TrimPrefix(path.Clean("/"+s.fold(strings.ReplaceAll(name, `\`, "/"))), "/")
	base := path.Base(wanted)
	for _, found := range [][]*File{
		s.byPath[wanted], s.ending(s.byName[base], wanted), s.byName[base], s.byStem[base], s.byStem[strings.TrimSuffix(base, extension(base))],
	} {
		if len(found) == 1 {
			return found[0], nil
		}
		if len(found) > 1 {
			return nil, fileProblem(cert.Problem{Code: CodeManyFiles, Limit: len(found), Detail: name}, found[0].Path, found[1].Path)
		}
	}
	return nil, fileProblem(cert.Problem{Code: CodeNoFile, Detail: name})
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
