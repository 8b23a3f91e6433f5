package pdfium

import (
	"crypto/sha256"
	"embed"
	"encoding/hex"
	"errors"
	"fmt"
	"io/fs"
	"strings"

	"github.com/klauspost/compress/zstd"
)

// The folder also contains committed files, so that the package compiles before
// `make build` has downloaded PDFium.
//
//go:embed wasm
var files embed.FS

const (
	binaryName = "wasm/pdfium.wasm.zst"
	sumName    = "wasm/SHA256SUMS"

	// maxModule is the maximum size of the module in bytes.
	maxModule = 64 << 20
)

// available returns an error if PDFium was not embedded when this binary was
// built.
func available(files fs.FS) error {
	if _, err := fs.Stat(files, binaryName); err != nil {
		return fmt.Errorf("%w: this binary was built without the PDF renderer: build it with `make build`", ErrUnavailable)
	}
	return nil
}

// module returns PDFium's WebAssembly module. It checks the hash at run time, because
// the embedded file is not committed, so a build may have embedded another file.
func module(files fs.FS) ([]byte, error) {
	packed, err := fs.ReadFile(files, binaryName)
	if err != nil {
		return nil, fmt.Errorf("reading PDFium: %w", err)
	}
	decoder, err := zstd.NewReader(nil, zstd.WithDecoderConcurrency(1), zstd.WithDecoderMaxMemory(maxModule))
	if err != nil {
		return nil, fmt.Errorf("decompressing PDFium: %w", err)
	}
	defer decoder.Close()
	wasm, err := decoder.DecodeAll(packed, nil)
	if err != nil {
		return nil, fmt.Errorf("decompressing PDFium: %w", err)
	}
	sums, err := fs.ReadFile(files, sumName)
	if err != nil {
		return nil, fmt.Errorf("reading the hash of PDFium: %w", err)
	}
	want, _, _ := strings.Cut(string(sums), " ")
	got := sha256.Sum256(wasm)
	if hex.EncodeToString(got[:]) != want {
		return nil, fmt.Errorf("the SHA-256 of PDFium is %x, want %s: run `make build` again", got, want)
	}
	return wasm, nil
}

// Licences returns the licence texts of PDFium and of its WebAssembly build. The
// texts must accompany every binary that contains PDFium. Licences returns "" in
// a binary without the texts.
func Licences() (string, error) {
	var b strings.Builder
	for _, name := range []string{"wasm/LICENSE", "wasm/LICENSE.pdfium"} {
		text, err := files.ReadFile(name)
		if errors.Is(err, fs.ErrNotExist) {
			continue
		}
		if err != nil {
			return "", fmt.Errorf("reading the licence: %w", err)
		}
		b.Write(text)
		b.WriteString("\n")
	}
	return b.String(), nil
}
