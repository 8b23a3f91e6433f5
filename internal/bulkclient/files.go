package bulkclient

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path"
	"strings"
	"sync"

	"golang.org/x/text/unicode/norm"

	"github.com/certvault/certvault/client"
)

// maxFile is the maximum size in bytes of a file that a vault accepts.
const maxFile = 20 << 20

// folder is the folder with the files of a list. Files outside of it are never opened, because the
// list may come from an untrusted person.
type folder struct {
	root *os.Root

	mu sync.Mutex
	// listed has the names of the files in each folder that was read. Its keys are the path of the folder and
	// the folded name.
	listed map[string]map[string][]string
}

func openFolder(dir string) (*folder, error) {
	root, err := os.OpenRoot(dir)
	if err != nil {
		return nil, fmt.Errorf("opening the folder of the files: %w", err)
	}
	return &folder{root: root, listed: map[string]map[string][]string{}}, nil
}

// source is a file of a list. Its key changes if the file changes.
type source struct {
	file *client.File
	key  string
}

// find returns the file that a row names, or a message for the author of the list.
func (f *folder) find(name string) (*source, string) {
	name = strings.ReplaceAll(name, `\`, "/")
	if path.IsAbs(name) || len(name) > 1 && name[1] == ':' {
		return nil, "The file name must be relative to the folder of the files."
	}
	name = path.Clean(name)
	info, err := f.root.Stat(name)
	if errors.Is(err, fs.ErrNotExist) {
		if name, err = f.similar(name); err == nil {
			info, err = f.root.Stat(name)
		}
	}
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return nil, "The file does not exist."
	case err != nil:
		return nil, "The file cannot be opened, or it is outside of the folder of the files."
	case !info.Mode().IsRegular():
		return nil, "This is a folder or a special file."
	case info.Size() == 0:
		return nil, "The file is empty."
	case info.Size() > maxFile:
		return nil, "The file is larger than 20 MB."
	}
	switch strings.ToLower(path.Ext(name)) {
	case ".pdf", ".jpg", ".jpeg", ".png":
	default:
		return nil, "The file must be a PDF, JPG, JPEG or PNG."
	}
	return &source{
		key:  fmt.Sprintf("%s\x00%d\x00%d", name, info.Size(), info.ModTime().UnixNano()),
		file: &client.File{Name: path.Base(name), Size: info.Size(), Open: func() (io.ReadCloser, error) { return f.root.Open(name) }},
	}, ""
}

// similar returns the file whose name differs from name only in case or in the composition of accented
// letters. File systems and spreadsheets may write the same name differently. If there is no such file
// or more than one, the error is fs.ErrNotExist.
func (f *folder) similar(name string) (string, error) {
	dir := path.Dir(name)
	names, err := f.names(dir)
	if err != nil {
		return "", err
	}
	if found := names[foldedName(path.Base(name))]; len(found) == 1 {
		return path.Join(dir, found[0]), nil
	}
	return "", fs.ErrNotExist
}

func (f *folder) names(dir string) (map[string][]string, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if names, ok := f.listed[dir]; ok {
		return names, nil
	}
	entries, err := fs.ReadDir(f.root.FS(), dir)
	if err != nil {
		return nil, err
	}
	names := make(map[string][]string, len(entries))
	for _, e := range entries {
		names[foldedName(e.Name())] = append(names[foldedName(e.Name())], e.Name())
	}
	f.listed[dir] = names
	return names, nil
}

func foldedName(name string) string { return strings.ToLower(norm.NFC.String(name)) }

func (f *folder) close() error { return f.root.Close() }
