// Command gen checks the SHA-256 of PDFium's WebAssembly module and compresses the module for the
// binary. The same module always produces the same output.
package main

import (
	"crypto/sha256"
	"encoding/hex"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"github.com/klauspost/compress/zstd"
)

func main() {
	from := flag.String("from", "web-deps/node_modules/@embedpdf/pdfium/dist/pdfium.wasm", "the module of the npm package")
	to := flag.String("to", "internal/pdfium/wasm", "folder of the compressed module")
	flag.Parse()
	if err := run(*from, *to); err != nil {
		fmt.Fprintln(os.Stderr, "pdfium:", err)
		os.Exit(1)
	}
}

func run(from, to string) error {
	wasm, err := os.ReadFile(from)
	if err != nil {
		return err
	}
	sums, err := os.ReadFile(filepath.Join(to, "SHA256SUMS"))
	if err != nil {
		return err
	}
	want, _, _ := strings.Cut(string(sums), " ")
	if got := sha256.Sum256(wasm); hex.EncodeToString(got[:]) != want {
		return fmt.Errorf("the SHA-256 of %s is %x, want %s", from, got, want)
	}
	// One goroutine compresses the module, so that the frame is the same on every machine.
	encoder, err := zstd.NewWriter(nil, zstd.WithEncoderLevel(zstd.SpeedBestCompression), zstd.WithEncoderConcurrency(1), zstd.WithWindowSize(8<<20))
	if err != nil {
		return err
	}
	return os.WriteFile(filepath.Join(to, "pdfium.wasm.zst"), encoder.EncodeAll(wasm, nil), 0o644) //nolint:gosec // a file of the build
}
