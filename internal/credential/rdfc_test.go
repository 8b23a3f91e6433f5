package credential

import (
	"bytes"
	"encoding/json"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/piprate/json-gold/ld"
)

// suite returns the folder of the W3C tests of URDNA2015 in json-gold. RDFC-1.0 has the same results for
// these tests, except that it escapes more characters.
func suite(t *testing.T) string {
	t.Helper()
	out, err := exec.CommandContext(t.Context(), "go", "list", "-m", "-f", "{{.Dir}}", "github.com/piprate/json-gold").Output()
	if err != nil {
		t.Fatal(err)
	}
	return filepath.Join(strings.TrimSpace(string(out)), "ld", "testdata", "normalization")
}

func fromNode(n ld.Node) term {
	switch n := n.(type) {
	case nil:
		return term{}
	case ld.IRI:
		return term{kind: iri, value: n.Value}
	case ld.BlankNode:
		return term{kind: blank, value: strings.TrimPrefix(n.Attribute, "_:")}
	case ld.Literal:
		return term{kind: literal, value: n.Value, datatype: n.Datatype, language: n.Language}
	}
	return term{}
}

func parseQuads(t *testing.T, text string) []quad {
	t.Helper()
	dataset, err := ld.ParseNQuads(text)
	if err != nil {
		t.Fatal(err)
	}
	w := rdfWriter{seen: map[quad]bool{}}
	for graph, quads := range dataset.Graphs {
		for _, q := range quads {
			out := quad{fromNode(q.Subject), fromNode(q.Predicate), fromNode(q.Object), term{}}
			switch {
			case strings.HasPrefix(graph, "_:"):
				out.graph = term{kind: blank, value: strings.TrimPrefix(graph, "_:")}
			case graph != "@default":
				out.graph = term{kind: iri, value: graph}
			}
			w.add(out)
		}
	}
	return w.quads
}

func TestW3CSuite(t *testing.T) {
	t.Parallel()
	dir := suite(t)
	data, err := os.ReadFile(filepath.Join(dir, "manifest-urdna2015.jsonld"))
	if err != nil {
		t.Fatal(err)
	}
	var manifest struct {
		Entries []struct{ ID, Name, Action, Result string }
	}
	if err := json.Unmarshal(data, &manifest); err != nil {
		t.Fatal(err)
	}
	run := 0
	for _, e := range manifest.Entries {
		in, err := os.ReadFile(filepath.Join(dir, e.Action))
		if err != nil {
			t.Fatal(err)
		}
		want, err := os.ReadFile(filepath.Join(dir, e.Result))
		if err != nil {
			t.Fatal(err)
		}
		// RDFC-1.0 also escapes these characters (RDFC, A).
		want = []byte(strings.NewReplacer("\b", `\b`, "\f", `\f`, "\t", `\t`).Replace(string(want)))
		got, err := canonicalize(t.Context(), parseQuads(t, string(in)))
		if errors.Is(err, errPoisoned) {
			t.Logf("%s %s: %v (%d bytes)", e.ID, e.Name, err, len(in))
			continue
		}
		if err != nil || !bytes.Equal(got, want) {
			t.Errorf("%s %s: error %v, got\n%s\nwant\n%s", e.ID, e.Name, err, got, want)
		}
		run++
	}
	if run < 55 {
		t.Errorf("%d of %d tests ran, want at least 55", run, len(manifest.Entries))
	}
}

// TestEscapes checks which characters of a literal are escaped in canonical N-Quads (RDFC, A).
func TestEscapes(t *testing.T) {
	t.Parallel()
	var b strings.Builder
	writeEscaped(&b, "a\x00\t\"\\\x7f\ufffd\ufffe\uffff\U0001F600")
	if want := `a\u0000\t\"\\\u007F` + "\ufffd" + `\uFFFE\uFFFF` + "\U0001F600"; b.String() != want {
		t.Errorf("escaped literal = %s, want %s", b.String(), want)
	}
}
