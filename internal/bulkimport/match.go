package bulkimport

import (
	"path"
	"strings"

	"golang.org/x/text/cases"
	"golang.org/x/text/unicode/norm"

	"github.com/certvault/certvault/internal/cert"
	"github.com/certvault/certvault/internal/sheet"
)

// fileIndex finds files by the names in rows. It ignores case, repeated spaces and the composition of
// accented letters. If no path matches a name, fileIndex also ignores the folders. If no file name
// matches either, it also ignores the extension.
type fileIndex struct {
	// byPath, byName and byStem have the files by path, by name without folders, and by name without
	// folders and extension. All keys are folded.
	byPath, byName, byStem map[string][]*File
	folder                 cases.Caser
}

func newFileIndex(files []*File) *fileIndex {
	s := &fileIndex{byPath: map[string][]*File{}, byName: map[string][]*File{}, byStem: map[string][]*File{}, folder: cases.Fold()}
	for _, f := range files {
		folded := s.fold(f.Path)
		name := path.Base(folded)
		stem := strings.TrimSuffix(name, extension(name))
		s.byPath[folded] = append(s.byPath[folded], f)
		s.byName[name] = append(s.byName[name], f)
		s.byStem[stem] = append(s.byStem[stem], f)
	}
	return s
}

// fold returns the form of a name that is used for comparison.
func (s *fileIndex) fold(name string) string {
	return strings.Join(strings.Fields(s.folder.String(norm.NFC.String(name))), " ")
}

// extension returns the extension of a folded name if files with it can become certificates, and ""
// otherwise.
func extension(name string) string {
	switch ext := path.Ext(name); ext {
	case ".pdf", ".jpg", ".jpeg", ".png":
		return ext
	}
	return ""
}

// fileProblem returns a problem of the file name of a row.
func fileProblem(p cert.Problem, paths ...string) *Problem {
	p.Field = cert.FieldFile
	return &Problem{Column: sheet.File, Paths: paths, Problem: p}
}

// has reports whether a name identifies exactly one file.
func (s *fileIndex) has(name string) bool {
	f, _ := s.find(name)
	return f != nil
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

// ending returns the files whose path ends with wanted, and the files whose path is the end of
// wanted. A list and an archive often have different top folders. If wanted has no folder, ending
// returns nil.
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
