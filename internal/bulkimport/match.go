package bulkimport

import (
	"path"
	"strings"

	"golang.org/x/text/cases"
	"golang.org/x/text/unicode/norm"

	"github.com/certvault/certvault/internal/cert"
	"github.com/certvault/certvault/internal/sheet"
)

// shelf finds the files that rows name. People and programs write names differently: in case, in
// the composition of accented letters, in folders and in extensions. A name matches if it
// identifies a single file after these differences are removed.
type fileIndex struct {
	// byPath, byName and byStem map a path, a name without folders, and a name without its
	// extension to files.
	byPath, byName, byStem map[string][]*File
	folder                 cases.Caser
}

func newFileIndex(files []*File) *fileIndex {
	s := &fileIndex{byPath: map[string][]*File{}, byName: map[string][]*File{}, byStem: map[string][]*File{}, folder: cases.Fold()}
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

// fold returns a name in the form that is used for comparison.
func (s *fileIndex) fold(name string) string {
	return strings.Join(strings.Fields(s.folder.String(norm.NFC.String(name))), " ")
}

// extension returns the known file extension of a name, "" if there is none.
func extension(name string) string {
	switch end := path.Ext(name); end {
	case ".pdf", ".jpg", ".jpeg", ".png":
		return end
	}
	return ""
}

// fileProblem returns a problem with the file name of a row.
func fileProblem(p cert.Problem, paths ...string) *Problem {
	p.Field = cert.FieldFile
	return &Problem{Column: sheet.File, Paths: paths, Problem: p}
}

// find returns the file that a name identifies, or the problem of the name.
func (s *fileIndex) find(name string) (*File, *Problem) {
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

// ending returns the files whose path ends with the given path, or the reverse: a list and an
// archive often use different top folders.
func (s *fileIndex) ending(files []*File, wanted string) (list []*File) {
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
