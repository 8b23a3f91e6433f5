package pdf

import (
	"bytes"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// corpus is the folder of real and hostile files, next to the repository.
const corpus = "../../../shared/corpus"

// corpusFile is the path of a file and the expected outcome (accept, reject or
// either) from a line of the corpus manifest.
type corpusFile struct{ path, expected string }

// corpusFiles returns the PDF files of the corpus, or every tenth file with -short. If the corpus
// is missing, the test is skipped; in CI it fails.
func corpusFiles(tb testing.TB) []corpusFile {
	tb.Helper()
	manifest, err := os.ReadFile(filepath.Join(corpus, "MANIFEST.tsv"))
	if err != nil {
		skip(tb, "the corpus is missing")
	}
	var files []corpusFile
	for line := range strings.Lines(string(manifest)) {
		fields := strings.Split(line, "\t")
		if len(fields) > 1 && strings.HasPrefix(fields[0], "pdf/") {
			files = append(files, corpusFile{path: fields[0], expected: fields[1]})
		}
	}
	if testing.Short() {
		return everyTenth(files)
	}
	return files
}

func everyTenth(files []corpusFile) (out []corpusFile) {
	for i := 0; i < len(files); i += 10 {
		out = append(out, files[i])
	}
	return out
}

// refusals are the errors for files that cannot be read.
var refusals = []error{ErrEmpty, ErrNotPDF, ErrTruncated, ErrDamaged, ErrPassword, ErrEncryption, ErrNoPages, ErrLimit}

func TestCorpus(t *testing.T) {
	t.Parallel()
	for _, f := range corpusFiles(t) {
		t.Run(f.path, func(t *testing.T) {
			t.Parallel()
			file, err := os.ReadFile(filepath.Join(corpus, f.path))
			if err != nil {
				t.Fatal(err)
			}
			tail, err := stampFile(bytes.NewReader(file), int64(len(file)))
			if err != nil {
				known := false
				for _, refusal := range refusals {
					known = known || errors.Is(err, refusal)
				}
				if f.expected == "accept" || !known {
					t.Fatal(err)
				}
				return
			}
			if f.expected == "reject" {
				t.Fatal("the file was accepted, want an error")
			}
			checkStamped(t, f, file, tail)
		})
	}
}

// checkStamped checks that the first page of a stamped file has an /XObject, and that
// the file needs no repair and can be stamped again. It also checks that qpdf reports no
// new problems, and that the tail is small if the file must be accepted.
func checkStamped(t *testing.T, f corpusFile, file, tail []byte) {
	t.Helper()
	out := append(bytes.Clone(file), tail...)
	d := open(t, out)
	page := firstPage(t, d)
	if page.Resources().Get("XObject") == nil || d.Err() != nil {
		t.Errorf("resources = %v, error = %v, want an /XObject and no error", page.Resources(), d.Err())
	}
	if d.Repaired() {
		t.Error("Repaired = true for the stamped file, want false")
	}
	before, _ := qpdfCheck(t, file)
	// A second stamp shows that the update is valid.
	again, err := stampPage(d, page)
	if err != nil {
		t.Fatal(err)
	}
	for _, out := range [][]byte{out, append(out, again...)} {
		// Exit code 2 means errors and 3 means warnings. Errors may become
		// warnings if the repair of this package recovers more objects than the
		// repair of qpdf.
		if after, output := qpdfCheck(t, out); after != before && after != 0 && before != 2 {
			t.Errorf("qpdf --check exits with %d, want 0 or %d as before the stamp\n%s", after, before, output)
		}
	}
	if f.expected == "accept" && len(tail) > 3000 {
		t.Errorf("the tail has %d bytes, want at most 3000", len(tail))
	}
}

// Damaged, encrypted and hostile files are refused with the expected errors.
func TestCorpusErrors(t *testing.T) {
	t.Parallel()
	corpusFiles(t)
	for path, want := range map[string]error{
		"pdf/not-pdf-or-truncated/made-empty-0-bytes.pdf":    ErrEmpty,
		"pdf/not-pdf-or-truncated/made-html-named.pdf":       ErrNotPDF,
		"pdf/not-pdf-or-truncated/made-truncated-half.pdf":   ErrTruncated,
		"pdf/not-pdf-or-truncated/made-zero-pages.pdf":       ErrNoPages,
		"pdf/broken-reject/qpdf-bad1-5bytes.pdf":             ErrNotPDF,
		"pdf/enc-password/aes256-r6-user.pdf":                ErrPassword,
		"pdf/enc-password/rc4-128-user.pdf":                  ErrPassword,
		"pdf/malicious/made-flate-bomb-256MiB-content.pdf":   ErrLimit,
		"pdf/malicious/made-xrefstream-bomb-16M-entries.pdf": ErrLimit,
		"pdf/malicious/made-flate-chain4-256MiB.pdf":         ErrLimit,
	} {
		file, err := os.ReadFile(filepath.Join(corpus, path))
		if err != nil {
			t.Fatal(err)
		}
		if _, err := stampFile(bytes.NewReader(file), int64(len(file))); !errors.Is(err, want) {
			t.Errorf("%s: opening and stamping returned %v, want %v", path, err, want)
		}
	}
}
