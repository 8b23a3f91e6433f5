package page

import (
	"bytes"
	"crypto/sha256"
	"embed"
	"encoding/base64"
	"fmt"
	"io/fs"
	"net/http"
	"path"
	"strings"
	"time"

	"github.com/certvault/certvault/internal/fault"
	"github.com/certvault/certvault/internal/locale"
	"github.com/certvault/certvault/internal/web"
)

//go:embed assets
var shared embed.FS

// ErrUnknown means that there is no page or asset at an address.
var ErrUnknown = fault.New(fault.NotFound, "There is no such page.")

// Site contains the languages and the assets of all surfaces of a vault.
type Site struct {
	languages *locale.Catalog
	// version is part of the addresses of all assets. It is derived from the digest of all assets, so
	// that browsers can cache assets forever and modules can import each other by relative names.
	version string
	files   map[string][]byte
	sets    []*Set
	// drill reports whether every page shows the banner of a drill.
	drill bool
	// test reports whether every page outside the panel shows the note of a test vault.
	test bool
}

// ShowDrill makes every page show that the vault is a drill of a restore. It must be called before the
// first request.
func (s *Site) ShowDrill() { s.drill = true }

// ShowTest makes every page outside the panel show that the vault is a test vault. It must be called
// before the first request.
func (s *Site) ShowTest() { s.test = true }

// NewSite loads the shared assets and the assets of the surfaces. The assets of a surface are the
// files in the folder "assets" of its file system.
func NewSite(languages *locale.Catalog, surfaces ...fs.FS) (*Site, error) {
	s := &Site{languages: languages, files: map[string][]byte{}}
	all := sha256.New()
	for _, files := range append([]fs.FS{shared}, surfaces...) {
		err := fs.WalkDir(files, "assets", func(name string, e fs.DirEntry, err error) error {
			if err != nil || e.IsDir() {
				return err
			}
			content, err := fs.ReadFile(files, name)
			if err != nil {
				return err
			}
			name = strings.TrimPrefix(name, "assets/")
			if _, exists := s.files[name]; exists {
				return fmt.Errorf("two assets have the name %s", name)
			}
			_, _ = fmt.Fprintf(all, "%s %d\n%s", name, len(content), content)
			s.files[name] = content
			return nil
		})
		if err != nil {
			return nil, fmt.Errorf("reading assets: %w", err)
		}
	}
	s.version = base64.RawURLEncoding.EncodeToString(all.Sum(nil)[:9])
	return s, nil
}

// Check loads the templates of all surfaces in the first language. That is sufficient, because all languages
// have the same messages. Check is for tests.
func (s *Site) Check() error {
	for _, set := range s.sets {
		for _, page := range set.pages[s.Languages()[0].Tag] {
			if _, err := page(); err != nil {
				return err
			}
		}
	}
	return nil
}

// Languages returns all languages, English first.
func (s *Site) Languages() []*locale.Language { return s.languages.Languages() }

// Catalog returns the catalog of all languages, for mail.
func (s *Site) Catalog() *locale.Catalog { return s.languages }

// address returns the address of an asset.
func (s *Site) address(name string) (string, error) {
	if _, ok := s.files[name]; !ok {
		return "", fmt.Errorf("there is no asset %s", name)
	}
	return AssetsPath + s.version + "/" + name, nil
}

// join concatenates assets into a new asset and returns the name of the new asset.
func (s *Site) join(names []string) (string, error) {
	var stems []string
	var content []byte
	for _, name := range names {
		if _, err := s.address(name); err != nil {
			return "", err
		}
		stems = append(stems, strings.TrimSuffix(name, path.Ext(name)))
		content = append(content, s.files[name]...)
	}
	joined := strings.Join(stems, "-") + path.Ext(names[0])
	s.files[joined] = content
	return joined, nil
}

// AssetsPath is the path prefix of all assets.
const AssetsPath = "/assets/"

// Assets serves the styles, modules and pictures of all surfaces.
func (s *Site) Assets(render web.Renderer) http.Handler {
	mux := http.NewServeMux()
	for _, pattern := range []string{"GET " + AssetsPath + "{version}/{file}", "GET " + AssetsPath + "{version}/{folder}/{file}"} {
		mux.Handle(pattern, web.Handler(render, s.asset))
	}
	return web.Routes(mux, render)
}

func (s *Site) asset(w http.ResponseWriter, r *http.Request) error {
	name := path.Join(r.PathValue("folder"), r.PathValue("file"))
	content, ok := s.files[name]
	if !ok || r.PathValue("version") != s.version {
		return ErrUnknown
	}
	w.Header().Set("Cache-Control", "public, max-age=31536000, immutable")
	http.ServeContent(w, r, name, time.Time{}, bytes.NewReader(content))
	return nil
}
