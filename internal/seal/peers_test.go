package seal

import (
	"bytes"
	"context"
	"image/png"
	"io"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/pdfcpu/pdfcpu/pkg/api"
	"github.com/pdfcpu/pdfcpu/pkg/pdfcpu/model"
	"github.com/pdfcpu/pdfcpu/pkg/pdfcpu/types"
	"rsc.io/qr"

	"github.com/certvault/certvault/test/vault"
)

// peersFolder has the script that measures the libraries from npm. make bench/peers installs them.
const peersFolder = "../../test/peers"

// BenchmarkPeers measures how long it takes to put a QR code on page one of a certificate of 100 kB. The
// peers do less than the vault:
//
//   - vault: reads the page, adds the stamp and the signature as an incremental update, renders the page,
//     and checks that the code can be read and covers nothing. The place is known from an earlier call of Seal.
//   - @libpdf/core: adds a picture and a signature as an incremental update.
//   - pdfcpu, pdf-lib, qpdf: add a picture and write the whole file again, without a signature. qpdf is a
//     program, and its time includes its start.
func BenchmarkPeers(b *testing.B) {
	pdf := vault.Sample{
		Institution: "Northwind University", Title: "Diploma", Name: "Ada Lovelace", Line: "has completed the course.", Date: "1 June 2026",
		Width: 842, Height: 595, Emblem: 207,
	}.PDF()
	code, err := qr.Encode(testURL, qr.M)
	if err != nil {
		b.Fatal(err)
	}
	var drawn bytes.Buffer
	if err := png.Encode(&drawn, code.Image()); err != nil { // @libpdf/core cannot read code.PNG
		b.Fatal(err)
	}
	diploma, picture := file(b, "diploma.pdf", pdf), file(b, "qr.png", drawn.Bytes())
	b.Run("vault", func(b *testing.B) { benchmarkSealing(b, pdf) })
	b.Run("pdfcpu", func(b *testing.B) {
		api.DisableConfigDir()
		for b.Loop() {
			if err := stampWithPdfcpu(pdf, picture, io.Discard); err != nil {
				b.Fatal(err)
			}
		}
	})
	b.Run("qpdf", func(b *testing.B) {
		var stamp bytes.Buffer
		if err := stampWithPdfcpu(pagePDF{}.bytes(), picture, &stamp); err != nil {
			b.Fatal(err)
		}
		overlay, out := file(b, "stamp.pdf", stamp.Bytes()), filepath.Join(b.TempDir(), "out.pdf")
		for b.Loop() {
			run(b, "qpdf", diploma, "--overlay", overlay, "--", out)
		}
	})
	for _, library := range []string{"pdf-lib", "@libpdf/core"} {
		b.Run(library, func(b *testing.B) { benchmarkLibrary(b, library, diploma, picture) })
	}
}

// benchmarkSealing measures Seal with a place from an earlier call of Seal, and with a signature.
func benchmarkSealing(b *testing.B, pdf []byte) {
	b.Helper()
	s, o, stamp := sealer(b), original(b, "diploma.pdf", pdf), testStamp()
	o.Recipient, stamp.Signature = "Ada Lovelace", testSignature(b)
	v, err := s.Seal(b.Context(), o, stamp)
	if err != nil {
		b.Fatal(err)
	}
	stamp.Placement.EarlierLayouts = []Layout{v.Layout}
	for b.Loop() {
		if _, err := s.Seal(context.Background(), o, stamp); err != nil {
			b.Fatal(err)
		}
	}
}

func stampWithPdfcpu(pdf []byte, picture string, out io.Writer) error {
	mark, err := api.ImageWatermark(picture, "pos:br, scale:0.1, rot:0", true, false, types.POINTS)
	if err != nil {
		return err
	}
	return api.AddWatermarks(bytes.NewReader(pdf), out, []string{"1"}, mark, model.NewDefaultConfiguration())
}

// benchmarkLibrary measures a library from npm. The script measures, because the start of Node.js takes
// longer than the work.
func benchmarkLibrary(b *testing.B, library, pdf, picture string) {
	b.Helper()
	if _, err := os.Stat(filepath.Join(peersFolder, "node_modules")); err != nil {
		b.Skip("the libraries are not installed; use make bench/peers")
	}
	key, certificate, p12 := filepath.Join(b.TempDir(), "key.pem"), filepath.Join(b.TempDir(), "certificate.pem"), filepath.Join(b.TempDir(), "key.p12")
	run(b, "openssl", "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes", "-keyout", key, "-out", certificate, "-days", "2", "-subj", "/CN=Test University")
	run(b, "openssl", "pkcs12", "-export", "-inkey", key, "-in", certificate, "-out", p12, "-passout", "pass:password")
	const count = 200
	out := run(b, "node", filepath.Join(peersFolder, "peers.mjs"), library, pdf, picture, strconv.Itoa(count), p12)
	median, _, _ := strings.Cut(strings.TrimSpace(out), " ")
	ms, err := strconv.ParseFloat(median, 64)
	if err != nil {
		b.Fatalf("the script printed %q: %v", out, err)
	}
	b.ReportMetric(ms*float64(time.Millisecond), "ns/op")
}

// run is like tool, and fails the benchmark if the program fails.
func run(b *testing.B, name string, args ...string) string {
	b.Helper()
	out, err := tool(b, name, args...)
	if err != nil {
		b.Fatalf("%s: %v: %s", name, err, out)
	}
	return out
}
