package main

import (
	"archive/tar"
	"bytes"
	"fmt"
	"path"
	"slices"
	"strings"
)

// places maps the beginnings of paths in the packages to paths in the top folder of the tar.gz. The first
// match applies.
var places = []struct{ from, to string }{
	{"/usr/bin/", ""},
	{"/usr/lib/certvault/", ""},
	{unitDir + "/", "systemd/"},
	{"/etc/certvault/", ""},
	{docDir + "/copyright", "LICENSE"},
	{docDir + "/", ""},
	{"/usr/share/man/man1/", ""},
	{"/usr/share/bash-completion/completions/certvault", "completions/certvault.bash"},
	{zshFile, "completions/_certvault"},
	{"/usr/share/fish/vendor_completions.d/", "completions/"},
}

// archive returns the tar.gz. top is the name of its top folder.
func (b *build) archive(top string, files []entry) ([]byte, error) {
	list := make([]entry, len(files))
	for i, f := range files {
		list[i] = f
		for _, p := range places {
			if rest, ok := strings.CutPrefix(f.path, p.from); ok {
				list[i].path = "/" + path.Join(top, p.to+rest)
				break
			}
		}
	}
	content, err := b.tarball(list)
	if err != nil {
		return nil, err
	}
	return compress(content)
}

// tarball returns a tar with the entries and their parent folders.
func (b *build) tarball(files []entry) ([]byte, error) {
	list := withFolders(files)
	var out bytes.Buffer
	w := tar.NewWriter(&out)
	for _, f := range list {
		h := &tar.Header{
			Typeflag: tar.TypeReg, Name: strings.TrimPrefix(f.path, "/"), Mode: int64(f.mode), Size: int64(len(f.content)), ModTime: b.modified,
			Uid: f.owner, Gid: f.owner, Format: tar.FormatPAX,
		}
		if f.content == nil {
			h.Typeflag = tar.TypeDir
			h.Name += "/"
		}
		if err := w.WriteHeader(h); err != nil {
			return nil, fmt.Errorf("%s: %w", f.path, err)
		}
		if _, err := w.Write(f.content); err != nil {
			return nil, fmt.Errorf("%s: %w", f.path, err)
		}
	}
	if err := w.Close(); err != nil {
		return nil, err
	}
	return out.Bytes(), nil
}

// withFolders returns the entries and their parent folders, sorted by path.
func withFolders(files []entry) []entry {
	list := slices.Clone(files)
	known := map[string]bool{"/": true}
	for _, f := range files {
		known[f.path] = true
	}
	for _, f := range files {
		for dir := path.Dir(f.path); !known[dir]; dir = path.Dir(dir) {
			known[dir] = true
			list = append(list, entry{path: dir, mode: 0o755})
		}
	}
	slices.SortFunc(list, func(x, y entry) int { return strings.Compare(x.path, y.path) })
	return list
}
