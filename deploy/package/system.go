package main

import (
	"bytes"
	"fmt"
	"os"
	"path"
	"path/filepath"
	"strings"

	"github.com/goreleaser/nfpm/v2"
	_ "github.com/goreleaser/nfpm/v2/deb" // for the format "deb"
	"github.com/goreleaser/nfpm/v2/files"
	_ "github.com/goreleaser/nfpm/v2/rpm" // for the format "rpm"
)

// description is the description of the deb and the rpm. Its first line is the summary.
const description = `Vault of verifiable certificates
An institution uploads certificates. The vault adds a QR code and a digital
signature, so that anyone can check whether a certificate is valid.`

// system returns the package of a Linux distribution, "deb" or "rpm".
func (b *build) system(format string, list []entry) (_ []byte, err error) {
	stage, err := os.MkdirTemp("", "certvault-package-")
	if err != nil {
		return nil, err
	}
	defer func() { _ = os.RemoveAll(stage) }()
	scripts, err := filepath.Abs(filepath.Join(b.root, "deploy", "package", "scripts"))
	if err != nil {
		return nil, err
	}
	script := func(name string) string { return filepath.Join(scripts, name+".sh") }
	info := nfpm.WithDefaults(&nfpm.Info{
		Name: "certvault", Arch: b.arch, Platform: "linux", Version: b.version, VersionSchema: "none", Release: "1",
		Section: "web", Priority: "optional", Maintainer: "The Certvault Authors <certvault@example.org>", Vendor: "The Certvault Authors",
		Homepage: "https://github.com/certvault/certvault", License: "Apache-2.0", Description: description, MTime: b.modified,
		Overridables: nfpm.Overridables{
			Scripts: nfpm.Scripts{PostInstall: script("postinstall"), PreRemove: script("preremove"), PostRemove: script("postremove")},
			Deb:     nfpm.Deb{Compression: "gzip", Fields: map[string]string{"Rules-Requires-Root": "no"}},
			RPM: nfpm.RPM{
				Group: "Applications/Internet", Summary: "Vault of verifiable certificates", Compression: "gzip",
				BuildHost: "localhost", // the default is the name of this machine
			},
		},
	})
	// The scripts run getent and useradd. Backups of a PostgreSQL database need pg_dump.
	switch format {
	case "deb":
		info.Release = "" // no Debian revision, which is optional (Debian Policy, 5.6.12)
		info.Depends, info.Suggests = []string{"passwd", "libc-bin"}, []string{"postgresql-client", "fonts-noto-cjk"}
		info.Recommends = []string{"ca-certificates"}
	case "rpm":
		info.Depends, info.Suggests = []string{"shadow-utils", "/usr/bin/getent"}, []string{"postgresql", "google-noto-sans-cjk-fonts"}
		info.Recommends = []string{"ca-certificates"}
	}
	for i, f := range list {
		if format == "rpm" {
			f.path = strings.Replace(f.path, zshFile, "/usr/share/zsh/site-functions/_certvault", 1)
		}
		source := filepath.Join(stage, fmt.Sprint(i))
		if err := os.WriteFile(source, f.content, 0o600); err != nil {
			return nil, err
		}
		c := &files.Content{
			Source: source, Destination: f.path,
			FileInfo: &files.ContentFileInfo{Owner: "root", Group: "root", Mode: f.mode, MTime: b.modified},
		}
		if f.config {
			c.Type = files.TypeConfigNoReplace
		}
		info.Contents = append(info.Contents, c)
	}
	// The package owns these folders, so that they are removed with it.
	for _, dir := range []string{"/etc/certvault", path.Dir(rendererDir), rendererDir, docDir} {
		info.Contents = append(info.Contents, &files.Content{
			Destination: dir, Type: files.TypeDir, FileInfo: &files.ContentFileInfo{Owner: "root", Group: "root", Mode: 0o755, MTime: b.modified},
		})
	}
	if err := nfpm.PrepareForPackager(info, format); err != nil {
		return nil, err
	}
	packager, err := nfpm.Get(format)
	if err != nil {
		return nil, err
	}
	var out bytes.Buffer
	if err := packager.Package(info, &out); err != nil {
		return nil, err
	}
	return out.Bytes(), nil
}
