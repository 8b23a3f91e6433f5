package main

import (
	"bytes"
	"crypto/sha256"
	"debug/buildinfo"
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"time"

	cdx "github.com/CycloneDX/cyclonedx-go"
	"github.com/google/uuid"
)

// bom returns the bill of materials in CycloneDX. It lists the standard library of Go, the modules that the
// linker recorded in the binary, and the npm packages of web-deps.
func (b *build) bom(binary string) ([]byte, error) {
	info, err := buildinfo.ReadFile(binary)
	if err != nil {
		return nil, err
	}
	sum := sha256.Sum256(b.binary)
	bom := cdx.NewBOM()
	bom.SerialNumber = "urn:uuid:" + uuid.NewSHA1(uuid.NameSpaceOID, sum[:]).String()
	bom.Metadata = &cdx.Metadata{
		Timestamp: b.modified.Format(time.RFC3339),
		Component: &cdx.Component{
			BOMRef: "certvault", Type: cdx.ComponentTypeApplication, Name: "certvault", Version: b.version,
			PackageURL: "pkg:golang/" + info.Main.Path,
			Hashes:     &[]cdx.Hash{{Algorithm: cdx.HashAlgoSHA256, Value: hex.EncodeToString(sum[:])}},
			Licenses:   &cdx.Licenses{{License: &cdx.License{ID: "Apache-2.0"}}},
		},
	}
	components := []cdx.Component{{
		BOMRef: "go", Type: cdx.ComponentTypeLibrary, Name: "std", Version: strings.TrimPrefix(info.GoVersion, "go"),
		PackageURL: "pkg:golang/std@" + strings.TrimPrefix(info.GoVersion, "go"),
	}}
	for _, dep := range info.Deps {
		if dep.Replace != nil {
			dep = dep.Replace
		}
		purl := "pkg:golang/" + dep.Path + "@" + url.PathEscape(dep.Version)
		components = append(components, cdx.Component{
			BOMRef: purl, Type: cdx.ComponentTypeLibrary, Name: dep.Path, Version: dep.Version, PackageURL: purl,
			// CycloneDX has no name for the kind of digest in go.sum, which is computed from the digests of
			// the module's files.
			Properties: &[]cdx.Property{{Name: "go:sum", Value: dep.Sum}},
		})
	}
	embedded, err := b.npmComponents()
	if err != nil {
		return nil, err
	}
	components = append(components, embedded...)
	bom.Components = &components
	var refs []string
	for _, c := range components {
		refs = append(refs, c.BOMRef)
	}
	bom.Dependencies = &[]cdx.Dependency{{Ref: "certvault", Dependencies: &refs}}
	var out bytes.Buffer
	if err := cdx.NewBOMEncoder(&out, cdx.BOMFileFormatJSON).SetPretty(true).EncodeVersion(bom, cdx.SpecVersion1_6); err != nil {
		return nil, err
	}
	return out.Bytes(), nil
}

// npmComponents returns the npm packages of web-deps.
func (b *build) npmComponents() ([]cdx.Component, error) {
	text, err := os.ReadFile(filepath.Join(b.root, "web-deps", "package-lock.json"))
	if err != nil {
		return nil, err
	}
	var lock struct {
		Packages map[string]struct {
			Version   string `json:"version"`
			Integrity string `json:"integrity"`
			License   string `json:"license"`
		} `json:"packages"`
	}
	if err := json.Unmarshal(text, &lock); err != nil {
		return nil, err
	}
	var list []cdx.Component
	for _, folder := range sortedKeys(lock.Packages) {
		name, ok := strings.CutPrefix(folder, "node_modules/")
		if !ok {
			continue // the package of web-deps itself
		}
		p := lock.Packages[folder]
		digest, err := base64.StdEncoding.DecodeString(strings.TrimPrefix(p.Integrity, "sha512-"))
		if err != nil {
			return nil, fmt.Errorf("%s: %w", name, err)
		}
		purl := "pkg:npm/" + strings.Replace(name, "@", "%40", 1) + "@" + p.Version
		c := cdx.Component{
			BOMRef: purl, Type: cdx.ComponentTypeLibrary, Name: name, Version: p.Version, PackageURL: purl,
			Hashes: &[]cdx.Hash{{Algorithm: cdx.HashAlgoSHA512, Value: hex.EncodeToString(digest)}},
		}
		if p.License != "" {
			c.Licenses = &cdx.Licenses{{Expression: p.License}}
		}
		list = append(list, c)
	}
	return list, nil
}
