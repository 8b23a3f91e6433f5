package credential

import (
	"bytes"
	"encoding/json"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

// names contains texts that programs often damage.
var names = map[string]string{
	"symbol":     "Ada® Lovelace™",
	"composed":   "Zoë Müller",
	"decomposed": "Zoe\u0308 Mu\u0308ller",
	"Arabic":     "فاطمة الزهراء",
	"Hebrew":     "שִׂרָה כֹּהֵן",
	"mixed":      "محمد (Mohammed) 12",
	"emoji":      "Ada 👩🏽‍🎓 🇧🇷",
	"Han":        "李小龍 𠮷田 髙橋",
	"Devanagari": "श्रीमती क्षत्रिय",
	"quotes":     `"Ada" \ 'Lovelace' </script> & &amp; ]]>`,
	"control":    "Ada\tLovelace\nKing\r\x01\x08\x0c\x1f\x7f\u0085\u2028\u200f\ufeff",
	"long":       strings.Repeat("Ada ", 200) + "Lovelace",
}

const otherDID = "did:web:other.example"

// libraryCase is a credential that a library verifies.
type libraryCase struct {
	name       string
	Library    string            `json:"library"`
	Credential string            `json:"credential"`
	Documents  map[string]string `json:"documents"`
	good       bool
}

// flatten returns the documents by URL. It returns only the status lists with the media type accept, which
// the library reads.
func (w web) flatten(accept string) map[string]string {
	out := map[string]string{}
	for address, body := range w {
		if url, ok := strings.CutPrefix(address, accept+" "); ok || !strings.Contains(address, " ") {
			out[url] = body
		}
	}
	return out
}

// libraryCases returns the cases of each library: valid credentials, and credentials that are changed,
// forged or revoked, or whose status list is missing.
func libraryCases(t *testing.T) []libraryCase {
	t.Helper()
	k, other := newKeys(t), newKeys(t)
	now := time.Now() // the libraries use the current time
	documents, revoked := newWebAt(t, k, now), newWebAt(t, k, now, 94567)
	// The other issuer does not have testDID, because verifier-core caches the documents of a DID.
	foreign := web{}
	did, err := DIDDocument(otherDID, other.public())
	if err != nil {
		t.Fatal(err)
	}
	metadata, err := IssuerMetadata(otherDID, other.public())
	if err != nil {
		t.Fatal(err)
	}
	foreign["https://other.example/.well-known/did.json"], foreign["https://other.example/.well-known/jwt-vc-issuer"] = string(did), string(metadata)
	missing := maps.Clone(documents)
	delete(missing, MediaTypeVC+" "+testList)
	delete(missing, MediaTypeStatusJWT+" "+testList)
	var out []libraryCase
	for format, libraries := range map[string][]string{
		MediaTypeVC: {"@digitalbazaar/vc", "@digitalcredentials/verifier-core"}, MediaTypeSDJWT: {"@sd-jwt/sd-jwt-vc"}, MediaTypeVCJWT: {"Web Crypto"},
	} {
		for _, library := range libraries {
			add := func(name, credential string, w web, good bool) {
				accept := MediaTypeVC
				if format == MediaTypeSDJWT {
					accept = MediaTypeStatusJWT
				}
				out = append(out, libraryCase{library + ": " + name, library, credential, w.flatten(accept), good})
			}
			for name, value := range names {
				in := testInput()
				in.Title, in.Recipient.Name, in.Issuer.Name, in.Achievement.Criteria = value, value, value, value
				add(name, formats(t, mustNew(t, in), k)[format], documents, true)
			}
			in := testInput()
			in.Achievement.Skills = []Skill{{Name: "😀"}, {Name: "！"}, {Name: "é"}, {Name: "e\u0301"}, {Name: "a"}, {Name: "𠮷"}}
			add("sorted by code point", formats(t, mustNew(t, in), k)[format], documents, true)
			good := formats(t, mustNew(t, testInput()), k)[format]
			in = testInput()
			in.Status, in.Issuer.DID = nil, otherDID
			add("another issuer's keys", formats(t, mustNew(t, in), k)[format], foreign, false)
			add("changed letter", change(t, good, "Ada", "Adb"), documents, false)
			add("changed date", change(t, good, testDate, "2026-06-29"), documents, false)
			if format != MediaTypeVCJWT { // Web Crypto verifies only signatures
				add("revoked", good, revoked, false)
				add("no status list", good, missing, false)
			}
			in = testInput()
			in.Status, in.Document, in.ExpiresOn, in.Achievement.Skills = nil, nil, time.Time{}, nil
			if library != "@digitalcredentials/verifier-core" { // verifier-core requires a status
				add("smallest", formats(t, mustNew(t, in), k)[format], documents, true)
			}
		}
	}
	return out
}

// change replaces a text in a credential: in JSON, or in a part of a token.
func change(t *testing.T, credential, from, to string) string {
	t.Helper()
	if strings.Contains(credential, from) {
		return strings.Replace(credential, from, to, 1)
	}
	for part := range strings.FieldsFuncSeq(credential, func(r rune) bool { return r == '.' || r == '~' }) {
		data, err := unbase64url(part)
		if err == nil && bytes.Contains(data, []byte(from)) {
			return strings.Replace(credential, part, base64url(bytes.Replace(data, []byte(from), []byte(to), 1)), 1)
		}
	}
	t.Fatalf("%q is not in the credential", from)
	return ""
}

// TestLibraries verifies credentials with the libraries of other projects, in one process of Node.js.
func TestLibraries(t *testing.T) {
	t.Parallel()
	dir := filepath.Join("..", "..", "test", "verifiers")
	node, err := exec.LookPath("node")
	if err == nil {
		_, err = os.Stat(filepath.Join(dir, "node_modules"))
	}
	if err != nil {
		if os.Getenv("CI") == "true" {
			t.Fatalf("run make deps: %v", err)
		}
		t.Skipf("run make deps: %v", err)
	}
	contexts, err := filepath.Abs("contexts")
	if err != nil {
		t.Fatal(err)
	}
	cases := libraryCases(t)
	var input bytes.Buffer
	for _, c := range cases {
		line, err := json.Marshal(c)
		if err != nil {
			t.Fatal(err)
		}
		input.Write(append(line, '\n'))
	}
	cmd := exec.CommandContext(t.Context(), node, "verify.mjs", contexts)
	cmd.Dir, cmd.Stdin, cmd.Stderr = dir, &input, os.Stderr
	out, err := cmd.Output()
	if err != nil {
		t.Fatalf("verify.mjs: %v\n%s", err, out)
	}
	lines := strings.Split(strings.TrimSpace(string(out)), "\n")
	if len(lines) != len(cases) {
		t.Fatalf("verify.mjs printed %d lines for %d credentials", len(lines), len(cases))
	}
	for i, c := range cases {
		if good := lines[i] == "good"; good != c.good {
			t.Errorf("%s: result = %q, want good = %v", c.name, lines[i], c.good)
		} else {
			t.Logf("%s: %s", c.name, lines[i])
		}
	}
}
