package credential

import (
	"bytes"
	"errors"
	"fmt"
	"maps"
	"strings"
	"testing"
	"time"
)

const testKeyDID = "did:key:z6MkhaXgBZDvotDkL5257faiztiGiC2QtKLGpbnnEGta2doK"

// poisoned returns a dataset of n blank nodes, each of which refers to all others. RDFC-1.0 needs
// factorial time for it. A JSON-LD document with this dataset needs labels of blank nodes, which canonical
// rejects. Therefore the test calls canonicalize.
func poisoned(n int) []quad {
	node := func(i int) term { return term{kind: blank, value: fmt.Sprintf("n%d", i)} }
	var out []quad
	for i := range n {
		for j := range n {
			if i != j {
				out = append(out, quad{node(i), term{kind: iri, value: "urn:p"}, node(j), term{}})
			}
		}
	}
	return out
}

func TestPoisonedDataset(t *testing.T) {
	t.Parallel()
	start := time.Now()
	if _, err := canonicalize(t.Context(), poisoned(12)); !errors.Is(err, errPoisoned) {
		t.Errorf("12 nodes: error %v, want errPoisoned", err)
	}
	if took := time.Since(start); took > 30*time.Second {
		t.Errorf("canonicalize took %v, want at most 30s", took)
	}
	if _, err := canonicalize(t.Context(), poisoned(4)); err != nil {
		t.Errorf("4 nodes: %v", err)
	}
}

// alike returns a credential with n equal results. They have no ids, so each needs the Hash N-Degree Quads
// algorithm.
func alike(n int) string {
	return `{"@context":["` + ContextVC + `","` + ContextOB + `"],"type":["VerifiableCredential"],"issuer":"` + testKeyDID + `",` +
		`"validFrom":"2026-01-01T00:00:00Z","credentialSubject":{"type":"AchievementSubject","result":[` +
		strings.TrimSuffix(strings.Repeat(`{"type":"Result","alignment":[{"type":"Alignment"}]},`, n), ",") + `]}}`
}

// tree returns a node with the given number of levels of nodes below it. Each node above the lowest level
// contains width equal nodes, so that the algorithm compares their permutations.
func tree(width, levels int) string {
	if levels == 0 {
		return `{"type":"Alignment"}`
	}
	return `{"type":"Alignment","alignment":[` + strings.TrimSuffix(strings.Repeat(tree(width, levels-1)+",", width), ",") + `]}`
}

func TestLimits(t *testing.T) {
	t.Parallel()
	for name, document := range map[string]string{
		"alike":   alike(200),
		"objects": alike(maxObjects),
		"tree":    strings.Replace(alike(1), `{"type":"Alignment"}`, tree(7, 3), 1),
		"deep":    strings.Repeat(`{"credentialSubject":`, 10_000),
		"arrays":  `{"x":` + strings.Repeat("[", 100_000),
		"values":  `{"x":[` + strings.Repeat("1,", maxValues) + `1]}`,
		"typed":   `{"@context":["` + ContextVC + `","` + ContextOB + `"],"type":["VerifiableCredential"],"issuer":"` + testKeyDID + `","credentialSubject":[` + strings.Repeat(`{"type":["AchievementSubject","Achievement","Profile","Result","Address","Alignment"]},`, maxObjects-10) + `{"type":"Profile"}]}`,
		"context": `{"@context":[` + strings.Repeat(`"`+ContextVC+`",`, 1000) + `"` + ContextVC + `"],"type":["VerifiableCredential"],"issuer":"` + testKeyDID + `","credentialSubject":{}}`,
		"large":   `{"x":"` + strings.Repeat("a", maxDocument) + `"}`,
		"number":  `{"x":1e999}`,
		"text":    `{"x":"` + "\xff" + `"}`,
	} {
		proof := `,"proof":{"type":"DataIntegrityProof","cryptosuite":"eddsa-rdfc-2022","proofPurpose":"assertionMethod","verificationMethod":"` + testKeyDID + `#` + strings.TrimPrefix(testKeyDID, "did:key:") + `","proofValue":"z` + base58Encode(make([]byte, 64)) + `"}}`
		document = strings.TrimSuffix(document, "}") + proof
		start := time.Now()
		r, err := Verify(t.Context(), []byte(document), Options{Now: testNow})
		if err != nil && !errors.Is(err, errTooLarge) || err == nil && r.Verdict == Valid {
			t.Errorf("%s: report = %v, error = %v, want a verdict that is not valid, or errTooLarge", name, r, err)
		}
		if took := time.Since(start); took > 10*time.Second {
			t.Errorf("%s: Verify took %v, want at most 10s", name, took)
		} else if err == nil {
			t.Logf("%s: %v, %s", name, took, summary(r))
		}
	}
}

func FuzzVerify(f *testing.F) {
	k := newKeys(f)
	documents := newWeb(f, k)
	for _, data := range formats(f, mustNew(f, testInput()), k) {
		f.Add([]byte(data))
		baked, err := BakePNG(samplePNG(f), []byte(data))
		if err != nil {
			f.Fatal(err)
		}
		f.Add(baked)
		if baked, err = BakeSVG([]byte(vector), []byte(data)); err != nil {
			f.Fatal(err)
		}
		f.Add(baked)
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		r, err := Verify(t.Context(), data, Options{Fetcher: documents, Now: testNow})
		if err != nil {
			return
		}
		if len(r.Checks) != 5 {
			t.Errorf("the report has %d checks, want 5", len(r.Checks))
		}
		// The fuzzer has no private key, so a valid credential must have the id of the credentials in the corpus.
		if c := r.Statement; r.Verdict == Valid && c.ID != "urn:uuid:7f1c2c0e-6a0c-4d2e-9f43-3e1f8f7d9a11" {
			t.Errorf("a forged credential is valid: %+v", c)
		}
	})
}

func FuzzCanonical(f *testing.F) {
	for _, s := range []string{alike(3), `{"@context":"` + ContextVC + `","id":"urn:x","name":{"@value":"a","@language":"en"}}`} {
		f.Add([]byte(s))
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		object, err := parseObject(data)
		if err != nil {
			return
		}
		first, err := canonical(t.Context(), object)
		if err != nil {
			return
		}
		again, err := canonical(t.Context(), object)
		if err != nil || !bytes.Equal(first, again) {
			t.Errorf("canonical returned %q and then %q, error %v; want equal results", first, again, err)
		}
	})
}

// FuzzFetched verifies credentials when a hostile server returns one of the fetched documents.
func FuzzFetched(f *testing.F) {
	k := newKeys(f)
	good := formats(f, mustNew(f, testInput()), k)
	documents := newWeb(f, k)
	for _, body := range documents {
		f.Add([]byte(body))
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		_, _ = Address(data)
		for format, credential := range good {
			for address, body := range documents {
				replaced := maps.Clone(documents)
				replaced[address] = string(data)
				r, err := Verify(t.Context(), []byte(credential), Options{Fetcher: replaced, Now: testNow})
				if err != nil {
					t.Errorf("%s: %v", format, err)
				} else if strings.Contains(address, "/status/") && r.Verdict == Invalid && string(data) != body {
					t.Errorf("%s: a forged status list revokes the credential: %s", format, summary(r))
				}
			}
		}
	})
}

func FuzzStatusList(f *testing.F) {
	f.Add(gzipped(f, StatusListSize/8))
	f.Fuzz(func(t *testing.T, s string) {
		if b, err := decodeBitstring(s); err == nil && (len(b) < StatusListSize/8 || len(b) > maxStatusBytes) {
			t.Errorf("the list has %d bytes, want %d to %d", len(b), StatusListSize/8, maxStatusBytes)
		}
	})
}
