package credential

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"
	"time"
)

// web is a Fetcher with documents in memory, by URL. The media type and a space precede the URL of a status
// list.
type web map[string]string

var errNotThere = errors.New("404")

func (w web) Fetch(_ context.Context, url, accept string) ([]byte, error) {
	if strings.HasPrefix(url, "https://vault.example/credentials/") {
		url = accept + " " + url
	}
	if body, ok := w[url]; ok {
		return []byte(body), nil
	}
	return nil, fmt.Errorf("%s: %w", url, errNotThere)
}

const (
	didAddress      = "https://vault.example/institutions/0199d9a4-6f10-7cc4-b5b2-0c5a2f6d7a01/did.json"
	metadataAddress = "https://vault.example/.well-known/jwt-vc-issuer/institutions/0199d9a4-6f10-7cc4-b5b2-0c5a2f6d7a01"
)

// newWeb returns the documents of the issuer, with the given entries of the status list set.
func newWeb(t testing.TB, k testKeys, revoked ...int) web {
	t.Helper()
	return newWebAt(t, k, testNow, revoked...)
}

func newWebAt(t testing.TB, k testKeys, now time.Time, revoked ...int) web {
	t.Helper()
	did, err := DIDDocument(testDID, k.public())
	if err != nil {
		t.Fatal(err)
	}
	metadata, err := IssuerMetadata(testDID, k.public())
	if err != nil {
		t.Fatal(err)
	}
	bits, err := NewBitstring(revoked...)
	if err != nil {
		t.Fatal(err)
	}
	l := StatusList{URL: testList, Issuer: testDID, Bits: bits, Issued: now, Lifetime: 5 * time.Minute}
	credential, err := SignStatusList(l, k.ed)
	if err != nil {
		t.Fatal(err)
	}
	token, err := SignStatusToken(l, k.ec)
	if err != nil {
		t.Fatal(err)
	}
	return web{
		didAddress: string(did), metadataAddress: string(metadata),
		MediaTypeVC + " " + testList: string(credential), MediaTypeStatusJWT + " " + testList: token,
	}
}

// formats returns a credential in each format.
func formats(t testing.TB, c *Credential, k testKeys) map[string]string {
	t.Helper()
	integrity, err := c.SignDataIntegrity(k.ed, testNow)
	if err != nil {
		t.Fatal(err)
	}
	jwt, err := c.SignJWT(k.ec)
	if err != nil {
		t.Fatal(err)
	}
	out := map[string]string{MediaTypeVC: string(integrity), MediaTypeVCJWT: jwt}
	for draft, name := range map[SDJWTDraft]string{SDJWTCurrent: MediaTypeSDJWT, SDJWTDraft5: "draft 5"} {
		o := SDJWTOptions{Draft: draft, Type: "https://vault.example/types/certificate", Holder: k.ed.Public(), Created: testNow}
		if out[name], err = c.SignSDJWT(k.ec, o); err != nil {
			t.Fatal(err)
		}
	}
	return out
}

func verify(t testing.TB, data string, fetcher Fetcher, now time.Time) *Report {
	t.Helper()
	r, err := Verify(t.Context(), []byte(data), Options{Fetcher: fetcher, Now: now})
	if err != nil {
		t.Fatal(err)
	}
	return r
}

// summary returns the verdict and the codes of the checks that did not pass.
func summary(r *Report) string {
	out := string(r.Verdict)
	for _, c := range r.Checks {
		if c.Result != Passed {
			out += fmt.Sprintf(" %s=%s:%s", c.Name, c.Result, c.Code)
		}
	}
	return out
}

func TestVerify(t *testing.T) {
	t.Parallel()
	k, other := newKeys(t), newKeys(t)
	c := mustNew(t, testInput())
	documents, revoked := newWeb(t, k), newWeb(t, k, 94567)
	without := func(name string) web {
		w := maps.Clone(documents)
		for address := range w {
			if strings.Contains(address, name) {
				delete(w, address)
			}
		}
		return w
	}
	withLists := func(from web) web {
		w := maps.Clone(documents)
		for address, body := range from {
			if strings.Contains(address, "/status/") {
				w[address] = body
			}
		}
		return w
	}
	later := testNow.Add(10 * time.Minute)
	for _, test := range []struct {
		name    string
		fetcher Fetcher
		now     time.Time
		want    string
	}{
		{"valid", documents, testNow, "valid"},
		{"revoked", revoked, testNow, "invalid status=failed:revoked"},
		{"offline", Offline{}, testNow, "unknown issuer=not_run:offline proof=not_run:no_key status=not_run:unproven"},
		{"no keys", without("institutions"), testNow, "unknown issuer=not_run:unreachable proof=not_run:no_key status=not_run:unproven"},
		{"no list", without("/status/"), testNow, "unknown status=not_run:unreachable"},
		{"list of another key", withLists(newWeb(t, other)), testNow, "unknown status=not_run:bad_list"},
		{"another issuer's keys", newWeb(t, other), testNow, "invalid issuer=failed:not_issuers_key proof=not_run:no_key status=not_run:unproven"},
		{"old list", documents, later, "unknown status=not_run:bad_list"},
		{"not yet", documents, day("2026-06-29"), "invalid period=failed:not_yet"},
		{"expired", documents, day("2036-07-01"), "invalid period=failed:expired status=not_run:bad_list"},
	} {
		for format, data := range formats(t, c, k) {
			got := summary(verify(t, data, test.fetcher, test.now))
			if test.name == "not yet" {
				got, _, _ = strings.Cut(got, " status=") // the status list is not valid yet either
			}
			if got != test.want {
				t.Errorf("%s, %s: summary = %q, want %q", test.name, format, got, test.want)
			}
		}
	}
}

func TestStatement(t *testing.T) {
	t.Parallel()
	k := newKeys(t)
	for format, data := range formats(t, mustNew(t, testInput()), k) {
		r := verify(t, data, newWeb(t, k), testNow)
		want := Statement{
			ID: "urn:uuid:7f1c2c0e-6a0c-4d2e-9f43-3e1f8f7d9a11", Badge: true, Title: "BSc Computer Science", IssuerID: testDID, IssuerName: "Northwest University",
			IssuerSite: "vault.example/institutions/0199d9a4-6f10-7cc4-b5b2-0c5a2f6d7a01", Recipient: "Ada Lovelace", Achievement: "BSc Computer Science",
			Description: "A first degree in computer science.", Criteria: "180 credits, and a thesis.",
			ValidFrom: day(testDate), ValidUntil: time.Date(2036, 6, 30, 23, 59, 59, 0, time.UTC),
		}
		if strings.Contains(r.Format, "sd-jwt") {
			want.Badge, want.IssuerID = false, "https://"+want.IssuerSite
		}
		if r.Statement != want {
			t.Errorf("%s: the statement is\n%+v\nwant\n%+v", format, r.Statement, want)
		}
	}
}

// TestChangedLetter checks that a credential is not valid after a change of one byte. It changes every 97th
// byte, one at a time.
func TestChangedLetter(t *testing.T) {
	t.Parallel()
	k := newKeys(t)
	documents := newWeb(t, k)
	for format, data := range formats(t, mustNew(t, testInput()), k) {
		checked := 0
		for i := 0; i < len(data); i += 97 {
			changed := []byte(data)
			changed[i] ^= 1
			r, err := Verify(t.Context(), changed, Options{Fetcher: documents, Now: testNow})
			if err != nil {
				continue // it is no longer a credential
			}
			if checked++; r.Verdict == Valid {
				t.Errorf("%s: valid after a change of byte %d (%q): %s", format, i, data[max(0, i-20):min(len(data), i+20)], summary(r))
			}
		}
		if checked < 10 {
			t.Errorf("%s: %d changes were checked, want at least 10", format, checked)
		}
	}
}

// Some changes of a JSON-LD document may leave its canonical form unchanged, and could hide the expiry or
// the status. TestHiddenMembers checks that a credential is invalid because of such a change, even if it
// is not revoked.
func TestHiddenMembers(t *testing.T) {
	t.Parallel()
	k := newKeys(t)
	data := formats(t, mustNew(t, testInput()), k)[MediaTypeVC]
	documents := newWeb(t, k)
	status := data[strings.Index(data, `"credentialStatus":`):strings.Index(data, `,"proof"`)]
	for name, test := range map[string][]string{ // the problem, and the changes
		"member as IRI":            {"keyword or an IRI", `"credentialStatus":`, `"https://www.w3.org/2018/credentials#credentialStatus":`},
		"expiry as IRI":            {"keyword or an IRI", `"validUntil":"2036-06-30T23:59:59Z"`, `"https://www.w3.org/2018/credentials#validUntil":{"@value":"2036-06-30T23:59:59Z","@type":"http://www.w3.org/2001/XMLSchema#dateTime"}`},
		"expiry as object":         {`"validUntil" is not a text`, `"validUntil":"2036-06-30T23:59:59Z"`, `"validUntil":{"@value":"2036-06-30T23:59:59Z"}`},
		"own context":              {"first context is not", `"@context":[`, `"@context":[{"x":"https://www.w3.org/2018/credentials#credentialStatus"},`},
		"own context last":         {"a context of its own", ContextOB + `"]`, ContextOB + `",{"x":"https://example.org/x"}]`},
		"context in an object":     {"keyword or an IRI", `"evidence":[{`, `"evidence":[{"@context":"` + ContextVC + `",`},
		"status in another node":   {"Dropping property", "," + status, "", `"evidence":[{`, `"evidence":[{` + status + `,`},
		"status under the same id": {"occurs twice", "," + status, "", `"evidence":[{`, `"evidence":[{"id":"urn:uuid:7f1c2c0e-6a0c-4d2e-9f43-3e1f8f7d9a11","type":["VerifiableCredential"],` + status + `},{`},
		"undefined member":         {"Dropping property", `"evidence":[{`, `"evidence":[{"unknown":"x",`},
		"undefined type":           {"not an absolute IRI", `"type":["Profile"]`, `"type":["Profile","Unknown"]`},
		"keyword-like member":      {"keyword or an IRI", `"evidence":[{`, `"evidence":[{"@note":"x",`},
		"relative id":              {"not an absolute IRI", `"evidence":[{`, `"evidence":[{"id":"x","type":["Evidence"],"name":"Forged"},{`},
		"id with a space":          {"forbidden character", `"evidence":[{`, `"evidence":[{"id":"http://a b","type":["Evidence"],"name":"Forged"},{`},
		"reverse":                  {"keyword or an IRI", `"evidence":[{`, `"@reverse":{},"evidence":[{`},
		"graph":                    {"keyword or an IRI", `{"@context"`, `{"@graph":[],"@context"`},
		"included":                 {"keyword or an IRI", `{"@context"`, `{"@included":[],"@context"`},
		"label":                    {"is a label", `"evidence":[{"id":"https://vault.example/verify/NWU-0123456789ABCDEF"`, `"evidence":[{"id":"_:b0"`},
		"member twice":             {`"validUntil" occurs twice`, `"validUntil":"2036-06-30T23:59:59Z"`, `"validUntil":"2036-06-30T23:59:59Z","validUntil":"2099-06-30T23:59:59Z"`},
		"direction":                {`has the member "@direction"`, `"name":"BSc Computer Science"`, `"name":{"@value":"BSc Computer Science","@direction":"rtl"}`},
	} {
		want, change, changed := test[0], test[1:], data
		for i := 0; i < len(change); i += 2 {
			if !strings.Contains(changed, change[i]) {
				t.Fatalf("%s: %q is not in the credential", name, change[i])
			}
			changed = strings.Replace(changed, change[i], change[i+1], 1)
		}
		r := verify(t, changed, documents, testNow)
		isProblem := func(c Check) bool { return c.Result == Failed && strings.Contains(c.Detail, want) }
		if r.Verdict != Invalid || !slices.ContainsFunc(r.Checks, isProblem) {
			t.Errorf("%s: the verdict is %s after the checks %+v, want Invalid and the problem %q", name, r.Verdict, r.Checks, want)
		}
	}
}

func TestUnknownContextAndProof(t *testing.T) {
	t.Parallel()
	k := newKeys(t)
	data := formats(t, mustNew(t, testInput()), k)[MediaTypeVC]
	documents := newWeb(t, k)
	for name, test := range map[string]struct{ from, to, want string }{
		"context":  {ContextOB, "https://example.org/context.json", "unknown proof=not_run:unknown_context status=not_run:unproven"},
		"suite":    {suiteEdDSA, "bbs-2023", "unknown issuer=not_run:unknown_proof proof=not_run:unknown_proof status=not_run:unproven"},
		"method":   {testDID + "#", "did:ion:x#", "invalid issuer=failed:not_issuers_key proof=not_run:no_key status=not_run:unproven"},
		"issuer":   {testDID, "did:ion:x", "unknown issuer=not_run:unknown_issuer proof=not_run:no_key status=not_run:unproven"},
		"no proof": {`"proof":`, `"termsOfUse":`, "invalid issuer=not_run:unknown_proof proof=failed:unsigned status=not_run:unproven"},
	} {
		if got := summary(verify(t, strings.ReplaceAll(data, test.from, test.to), documents, testNow)); got != test.want {
			t.Errorf("%s: %s, want %s", name, got, test.want)
		}
	}
}

// TestKeyOfAnotherIssuer checks that a credential is invalid if its key belongs to an attacker and not to
// its issuer.
func TestKeyOfAnotherIssuer(t *testing.T) {
	t.Parallel()
	k, attacker := newKeys(t), newKeys(t)
	in := testInput()
	in.Issuer.DID = "did:web:attacker.example"
	documents := newWeb(t, k)
	did, err := DIDDocument(in.Issuer.DID, attacker.public())
	if err != nil {
		t.Fatal(err)
	}
	documents["https://attacker.example/.well-known/did.json"] = string(did)
	for format, data := range formats(t, mustNew(t, in), attacker) {
		if format != MediaTypeVC {
			continue
		}
		forged := strings.Replace(data, `"id":"did:web:attacker.example"`, `"id":"`+testDID+`"`, 1)
		if got := summary(verify(t, forged, documents, testNow)); !strings.HasPrefix(got, "invalid issuer=failed:not_issuers_key") {
			t.Errorf("%s: %s, want invalid issuer=failed:not_issuers_key", format, got)
		}
	}
	// The header of this JWT names the attacker's key.
	c := mustNew(t, testInput())
	payload := claims{document: c.document, Iss: testDID, Jti: c.document.ID}
	method, err := MethodID(in.Issuer.DID, attacker.ec.Public())
	if err != nil {
		t.Fatal(err)
	}
	token, err := signJWT(attacker.ec, method, typVCJWT, "vc", payload)
	if err != nil {
		t.Fatal(err)
	}
	if got := summary(verify(t, token, documents, testNow)); !strings.HasPrefix(got, "invalid issuer=failed:not_issuers_key") {
		t.Errorf("token: %s, want invalid issuer=failed:not_issuers_key", got)
	}
}

// TestDIDKey checks that the verdict for a did:key issuer is unknown, because anyone can create a did:key.
func TestDIDKey(t *testing.T) {
	t.Parallel()
	k := newKeys(t)
	name, err := multikey(k.ed.Public())
	if err != nil {
		t.Fatal(err)
	}
	in := testInput()
	in.Issuer.DID, in.Status = "did:key:"+name, nil
	data, err := mustNew(t, in).SignDataIntegrity(k.ed, testNow)
	if err != nil {
		t.Fatal(err)
	}
	if got, want := summary(verify(t, string(data), Offline{}, testNow)), "unknown issuer=not_run:anonymous status=not_run:no_status"; got != want {
		t.Errorf("%s, want %s", got, want)
	}
}

func TestNoStatusIsValid(t *testing.T) {
	t.Parallel()
	k := newKeys(t)
	in := testInput()
	in.Status = nil
	for format, data := range formats(t, mustNew(t, in), k) {
		if got, want := summary(verify(t, data, newWeb(t, k), testNow)), "valid status=not_run:no_status"; got != want {
			t.Errorf("%s: %s, want %s", format, got, want)
		}
	}
}

func TestAlgorithmsOfTokens(t *testing.T) {
	t.Parallel()
	k := newKeys(t)
	documents := newWeb(t, k)
	token := formats(t, mustNew(t, testInput()), k)[MediaTypeVCJWT]
	parts := strings.Split(token, ".")
	for header, want := range map[string]string{
		`{"alg":"none","typ":"vc+jwt","kid":"x"}`:                  "invalid",
		`{"alg":"HS256","typ":"vc+jwt","kid":"#KID"}`:              "invalid",
		`{"alg":"EdDSA","typ":"vc+jwt","kid":"#KID"}`:              "invalid",
		`{"alg":"ES256","typ":"vc+jwt","kid":"#KID"}`:              "invalid", // the signed message differs, because the header differs
		`{"alg":"ES256","typ":"vc+jwt","kid":"#x"}`:                "invalid",
		`{"alg":"ES256","typ":"at+jwt","kid":"#KID"}`:              "unknown",
		`{"alg":"ES256","typ":"vc+jwt","crit":["x"],"kid":"#KID"}`: "unknown",
		`{"alg":"ES256","typ":"vc+jwt","jwk":{"kty":"EC"}}`:        "unknown",
		`{"alg":"ES256","typ":"vc+jwt"}`:                           "unknown",
	} {
		name, err := fragment(k.ec.Public())
		if err != nil {
			t.Fatal(err)
		}
		forged := base64url([]byte(strings.Replace(header, "KID", name, 1))) + "." + parts[1] + "." + parts[2]
		if r := verify(t, forged, documents, testNow); string(r.Verdict) != want {
			t.Errorf("%s: %s, want %s", header, summary(r), want)
		}
	}
}

// TestClaimsAndMembers checks that the claims iss and jti must match the credential, and that nbf and exp can
// shorten the time for which it is valid.
func TestClaimsAndMembers(t *testing.T) {
	t.Parallel()
	k := newKeys(t)
	documents := newWeb(t, k)
	c := mustNew(t, testInput())
	method, err := MethodID(testDID, k.ec.Public())
	if err != nil {
		t.Fatal(err)
	}
	for name, test := range map[string]struct {
		payload claims
		want    string
	}{
		"another issuer":  {claims{document: c.document, Iss: "did:web:other.example", Jti: c.document.ID}, "form=failed:malformed"},
		"another id":      {claims{document: c.document, Iss: testDID, Jti: "urn:x"}, "form=failed:malformed"},
		"earlier expiry":  {claims{document: c.document, Iss: testDID, Jti: c.document.ID, Exp: testNow.Unix() - 1}, "period=failed:expired"},
		"later beginning": {claims{document: c.document, Iss: testDID, Jti: c.document.ID, Nbf: testNow.Unix() + 1}, "period=failed:not_yet"},
	} {
		token, err := signJWT(k.ec, method, typVCJWT, "vc", test.payload)
		if err != nil {
			t.Fatal(err)
		}
		if got := summary(verify(t, token, documents, testNow)); !strings.HasPrefix(got, "invalid "+test.want) {
			t.Errorf("%s: %s, want %s", name, got, test.want)
		}
	}
}

// TestDisclosures checks that the recipient can withhold claims of an SD-JWT, but cannot add claims.
func TestDisclosures(t *testing.T) {
	t.Parallel()
	k, other := newKeys(t), newKeys(t)
	documents := newWeb(t, k)
	data := formats(t, mustNew(t, testInput()), k)[MediaTypeSDJWT]
	foreign := formats(t, mustNew(t, testInput()), other)[MediaTypeSDJWT]
	parts := strings.Split(data, "~")
	join := func(parts ...string) string { return strings.Join(parts, "~") + "~" }
	for name, test := range map[string]struct{ data, want string }{
		"nothing":         {join(parts[0]), "valid"},
		"one":             {join(parts[0], parts[2]), "valid"},
		"twice":           {join(parts[0], parts[2], parts[2]), "invalid form=failed:malformed"},
		"foreign":         {join(parts[0], strings.Split(foreign, "~")[1]), "invalid form=failed:malformed"},
		"one element":     {join(parts[0], base64url([]byte(`["salt"]`))), "invalid form=failed:malformed"},
		"two members":     {join(parts[0], base64url([]byte(`["a","b","c"],"e":["a"]`))), "invalid form=failed:malformed"},
		"no end":          {parts[0] + "~" + parts[1], "invalid form=failed:malformed"},
		"key binding JWT": {data + strings.Split(foreign, "~")[0], "valid"},
		"too many":        {join(append([]string{parts[0]}, strings.Split(strings.Repeat("e~", maxDisclosures), "~")...)...), "unknown form=not_run:too_complex"},
	} {
		got := summary(verify(t, test.data, documents, testNow))
		if got, _, _ = strings.Cut(got, " issuer="); got != test.want {
			t.Errorf("%s: %s, want %s", name, got, test.want)
		}
	}
	if r := verify(t, join(parts[0]), documents, testNow); r.Statement.Recipient != "" || r.Statement.Title != "" {
		t.Errorf("the statement contains withheld claims: %+v", r.Statement)
	}
}

// TestRepeatedDisclosures checks that disclose rejects a digest that occurs twice, even if its claim is
// withheld, and two disclosures with the same name (RFC 9901, 7.1).
func TestRepeatedDisclosures(t *testing.T) {
	t.Parallel()
	disclosure := func(text string) (encoded, digest string) {
		encoded = base64url([]byte(text))
		return encoded, disclosureDigest(encoded)
	}
	null, nullDigest := disclosure(`["a","title",null]`)
	again, againDigest := disclosure(`["b","title","PhD"]`)
	for name, test := range map[string]struct {
		digests     []any
		disclosures []string
		valid       bool
	}{
		"withheld":                   {[]any{"x", "y"}, nil, true},
		"null":                       {[]any{nullDigest}, []string{null}, true},
		"withheld twice":             {[]any{"x", "x"}, nil, false},
		"a claim of null, and again": {[]any{nullDigest, againDigest}, []string{null, again}, false},
	} {
		claims, err := disclose(map[string]any{"_sd": test.digests}, test.disclosures)
		if (err == nil) != test.valid || err != nil && !errors.Is(err, errDisclosure) {
			t.Errorf("%s: disclose = %v, %v, want valid = %v", name, claims, err, test.valid)
		}
	}
}

func TestCancelled(t *testing.T) {
	t.Parallel()
	k := newKeys(t)
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	for format, data := range formats(t, mustNew(t, testInput()), k) {
		if _, err := Verify(ctx, []byte(data), Options{Fetcher: newWeb(t, k), Now: testNow}); !errors.Is(err, context.Canceled) {
			t.Errorf("%s: error %v, want context.Canceled", format, err)
		}
	}
}
