package seal

import (
	"bufio"
	"bytes"
	"crypto/sha256"
	"encoding"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// corpusFolder is the folder of the corpus, outside the repository.
const corpusFolder = "../../../shared/corpus"

// corpusCase is a line of the manifest of the corpus.
type corpusCase struct {
	path, expected, why string
}

// With -short, corpus returns every shortStep-th case.
const shortStep = 25

// corpus returns the cases whose path begins with prefix. With -short, it returns only some of these
// cases.
func corpus(t testing.TB, prefix string) []corpusCase {
	t.Helper()
	f, err := os.Open(filepath.Join(corpusFolder, "MANIFEST.tsv"))
	if err != nil {
		skipOrFail(t, "the corpus does not exist")
	}
	defer f.Close()
	var out []corpusCase
	for s := bufio.NewScanner(f); s.Scan(); {
		if fields := strings.Split(s.Text(), "\t"); len(fields) > 3 && fields[0] != "path" && strings.HasPrefix(fields[0], prefix) {
			out = append(out, corpusCase{fields[0], fields[1], fields[3]})
		}
	}
	if testing.Short() {
		all := out
		out = nil
		for i := 0; i < len(all); i += shortStep {
			out = append(out, all[i])
		}
	}
	if len(out) == 0 {
		t.Fatalf("the corpus contains no path that begins with %q", prefix)
	}
	return out
}

// skipOrFail skips a test because a requirement is missing. If the environment has CI=true, it fails the
// test instead.
func skipOrFail(t testing.TB, reason string) {
	t.Helper()
	if os.Getenv("CI") == "true" {
		t.Fatal(reason)
	}
	t.Skip(reason)
}

func (c corpusCase) read(t testing.TB) []byte {
	t.Helper()
	data, err := os.ReadFile(filepath.Join(corpusFolder, c.path))
	if err != nil {
		t.Fatal(err)
	}
	return data
}

// original returns an Original with data, as an upload creates it.
func original(t testing.TB, name string, data []byte) Original {
	t.Helper()
	h := sha256.New()
	h.Write(data)
	state, err := h.(encoding.BinaryMarshaler).MarshalBinary()
	if err != nil {
		t.Fatal(err)
	}
	o := Original{Name: name, R: bytes.NewReader(data), Size: int64(len(data)), State: state}
	h.Sum(o.SHA256[:0])
	o.Type = extensions[strings.ToLower(filepath.Ext(name))]
	return o
}

// mustRefuse returns err as a *Refusal. It fails the test if err is not a *Refusal with a code and a
// reason.
func mustRefuse(t testing.TB, err error) *Refusal {
	t.Helper()
	var r *Refusal
	if !errors.As(err, &r) {
		t.Fatalf("error = %v, want a refusal", err)
	}
	if r.Code == "" || r.Reason == "" {
		t.Errorf("the refusal has no code or no reason: %+v", r)
	}
	return r
}

func sum(data []byte) [32]byte { return sha256.Sum256(data) }
