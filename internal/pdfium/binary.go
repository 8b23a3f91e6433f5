package pdfium

import (
	"crypto/sha256"
	"embed"
	"encoding/hex"
	"errors"
	"fmt"
	"io/fs"
	"strings"
)

// The folder holds committed files too, so that the package compiles before
// `make build` has brought PDFium in.
//
//go:embed wasm
var files embed.FS

const (
	binaryName = "wasm/pdfium.wasm"
	sumName    = "wasm/SHA256SUMS"
)

// available tells whether PDFium was embedded when this binary was built.
func available(files fs.FS) error {
	if _, err := fs.Stat(files, binaryName); err != nil {
		return fmt.Errorf("%w: this binary was built without the PDF renderer: build it with `make build`", ErrUnavailable)
	}
	return nil
}

// module returns PDFium's WebAssembly module. Its hash is checked here, at run
// time, and not in tests alone: what was embedded is decided by the state of
// somebody's build folder, and a wrong module must not run anywhere. It costs
// a few milliseconds, once.
func module(files fs.FS) ([]byte, error) {
	wasm, err := fs.ReadFile(files, binaryName)
	if err != nil {
		return nil, fmt.Errorf("read PDFium: %w", err)
	}
	sums, err := fs.ReadFile(files, sumName)
	if err != nil {
		return nil, fmt.Errorf("read the hash of PDFium: %w", err)
	}
	want, _, _ := strings.Cut(string(sums), " ")
	got := sha256.Sum256(wasm)
	if hex.EncodeToString(got[:]) != want {
		return nil, fmt.Errorf("PDFium has SHA-256 %x, not the pinned %s: run `make build` again", got, want)
	}
	return wasm, nil
}

// Licences returns the licence texts of PDFium and of its WebAssembly build, as
// they must accompany every binary that holds them. It is empty in a binary
// without PDFium.
func Licences() (string, error) {
	var b strings.Builder
	for _, name := range []string{"wasm/LICENSE", "wasm/LICENSE.pdfium"} {
		text, err := files.ReadFile(name)
		if errors.Is(err, fs.ErrNotExist) {
			continue
		}
		if err != nil {
			return "", fmt.Errorf("read licence: %w", err)
		}
		b.Write(text)
		b.WriteString("\n")
	}
	return b.String(), nil
}
