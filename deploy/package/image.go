package main

import (
	"bytes"
	"encoding/json"
	"encoding/pem"
	"io"
	"os"
	"path/filepath"
	"strings"

	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/empty"
	"github.com/google/go-containerregistry/pkg/v1/layout"
	"github.com/google/go-containerregistry/pkg/v1/mutate"
	"github.com/google/go-containerregistry/pkg/v1/tarball"
	"github.com/google/go-containerregistry/pkg/v1/types"
	"golang.org/x/crypto/x509roots/fallback/bundle"
)

// imageUser is the id of the user and of the group in the image. Many images without a shell use this id.
const imageUser = 65532

// image returns an OCI image in a tar that docker load, podman load and skopeo copy accept. The image needs
// no base image, because the binary is static.
func (b *build) image(files []entry) ([]byte, error) {
	var list []entry
	for _, f := range files {
		if strings.HasPrefix(f.path, "/usr/bin/") || strings.HasPrefix(f.path, rendererDir) || strings.HasPrefix(f.path, docDir) {
			list = append(list, f)
		}
	}
	list = append(list,
		entry{path: "/etc/ssl/certs/ca-certificates.crt", mode: 0o644, content: roots()},
		entry{path: "/etc/passwd", mode: 0o644, content: []byte("root:x:0:0:root:/:/sbin/nologin\ncertvault:x:65532:65532::/var/lib/certvault:/sbin/nologin\n")},
		entry{path: "/etc/group", mode: 0o644, content: []byte("root:x:0:\ncertvault:x:65532:\n")},
		entry{path: "/var/lib/certvault", mode: 0o700, owner: imageUser},
		entry{path: "/tmp", mode: 0o1777},
	)
	if b.fonts != "" {
		fonts, err := tree(b.fonts, "/usr/share/fonts")
		if err != nil {
			return nil, err
		}
		list = append(list, fonts...)
	}
	content, err := b.tarball(list)
	if err != nil {
		return nil, err
	}
	layer, err := tarball.LayerFromOpener(func() (io.ReadCloser, error) { return io.NopCloser(bytes.NewReader(content)), nil },
		tarball.WithMediaType(types.OCILayer))
	if err != nil {
		return nil, err
	}
	img, err := mutate.AppendLayers(mutate.ConfigMediaType(mutate.MediaType(empty.Image, types.OCIManifestSchema1), types.OCIConfigJSON), layer)
	if err != nil {
		return nil, err
	}
	config, err := img.ConfigFile()
	if err != nil {
		return nil, err
	}
	config = config.DeepCopy()
	config.OS, config.Architecture, config.Created = "linux", b.arch, v1.Time{Time: b.modified}
	config.Config = v1.Config{
		User: "65532:65532", Entrypoint: []string{"/usr/bin/certvault"}, Cmd: []string{"serve"}, WorkingDir: "/var/lib/certvault",
		Env: []string{
			"PATH=/usr/bin", "HOME=/var/lib/certvault",
			"CERTVAULT_DATA=/var/lib/certvault", "CERTVAULT_CACHE=" + rendererDir, "CERTVAULT_LISTEN=:8443", "CERTVAULT_LOG=json",
		},
		ExposedPorts: map[string]struct{}{"8443/tcp": {}}, Volumes: map[string]struct{}{"/var/lib/certvault": {}},
		Labels: map[string]string{
			"org.opencontainers.image.title": "certvault", "org.opencontainers.image.version": b.version,
			"org.opencontainers.image.licenses": "Apache-2.0", "org.opencontainers.image.source": "https://github.com/certvault/certvault",
		},
	}
	config.History = []v1.History{{Created: config.Created, CreatedBy: "make package"}}
	if img, err = mutate.ConfigFile(img, config); err != nil {
		return nil, err
	}
	return b.saved(img)
}

// roots returns the root certificates of Mozilla, in the version that go.mod pins. It omits certificates that
// are trusted only under additional conditions, because a PEM file cannot contain these conditions.
func roots() []byte {
	var out bytes.Buffer
	for root := range bundle.Roots() {
		if root.Constraint == nil {
			out.Write(pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: root.Certificate}))
		}
	}
	return out.Bytes()
}

// saved returns an image as an OCI layout in a tar. The tar also has manifest.json, which older versions of
// docker load require.
func (b *build) saved(img v1.Image) ([]byte, error) {
	dir, err := os.MkdirTemp("", "certvault-image-")
	if err != nil {
		return nil, err
	}
	defer func() { _ = os.RemoveAll(dir) }()
	path, err := layout.Write(dir, empty.Index)
	if err != nil {
		return nil, err
	}
	name := "certvault:" + strings.NewReplacer("~", "-", "+", "-").Replace(b.version)
	if err := path.AppendImage(img, layout.WithAnnotations(map[string]string{
		"io.containerd.image.name": "docker.io/library/" + name, "org.opencontainers.image.ref.name": name,
	})); err != nil {
		return nil, err
	}
	manifest, err := img.Manifest()
	if err != nil {
		return nil, err
	}
	blob := func(h v1.Hash) string { return "blobs/" + h.Algorithm + "/" + h.Hex }
	text, err := json.Marshal([]map[string]any{{
		"Config": blob(manifest.Config.Digest), "RepoTags": []string{name}, "Layers": []string{blob(manifest.Layers[0].Digest)},
	}})
	if err != nil {
		return nil, err
	}
	if err := os.WriteFile(filepath.Join(dir, "manifest.json"), text, 0o600); err != nil {
		return nil, err
	}
	files, err := tree(dir, "/")
	if err != nil {
		return nil, err
	}
	return b.tarball(files)
}
