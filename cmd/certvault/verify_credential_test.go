package main

import (
	"bytes"
	"context"
	"crypto"
	"crypto/ecdsa"
	"crypto/ed25519"
	"crypto/elliptic"
	"crypto/rand"
	"image"
	"image/png"
	"net/netip"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/certvault/certvault/internal/credential"
	"github.com/certvault/certvault/internal/db"
)

// issuedCredential is a credential in several formats, with the paths of the documents to which it refers.
// revoked is the path of a status list in which the credential is revoked.
type issuedCredential struct {
	json, token, sdJWT, picture []byte
	did, metadata               string
	list, revoked, tokenList    string
}

func issueCredential(t *testing.T) issuedCredential {
	t.Helper()
	must := func(err error) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
	}
	_, ed, err := ed25519.GenerateKey(rand.Reader)
	must(err)
	ec, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	must(err)
	const did, list = "did:web:vault.invalid:institutions:" + university, "https://vault.invalid/credentials/status/1"
	now := time.Now()
	c, err := credential.New(credential.Input{
		ID: "7f1c2c0e-6a0c-4d2e-9f43-3e1f8f7d9a11", Title: "BSc Computer Science", Issuer: credential.Issuer{DID: did, Name: "Northwest University"},
		Recipient: credential.Recipient{Name: "Ada Lovelace\u202e\x1b[31m"}, IssuedOn: now,
		Achievement: credential.Achievement{ID: "urn:x:1", Name: "BSc Computer Science", Description: "A degree.", Criteria: "180 credits."},
		Status:      &credential.StatusEntry{List: list, Index: 12},
	})
	must(err)
	var out issuedCredential
	out.json, err = c.SignDataIntegrity(ed, now)
	must(err)
	token, err := c.SignJWT(ec)
	must(err)
	sdJWT, err := c.SignSDJWT(ec, credential.SDJWTOptions{Type: "urn:x:certificate", Created: now})
	must(err)
	out.token, out.sdJWT = []byte(token), []byte(sdJWT)
	var empty bytes.Buffer
	must(png.Encode(&empty, image.NewGray(image.Rect(0, 0, 1, 1))))
	out.picture, err = credential.BakePNG(empty.Bytes(), out.json)
	must(err)
	keys := []crypto.PublicKey{ed.Public(), ec.Public()}
	document, err := credential.DIDDocument(did, keys)
	must(err)
	metadata, err := credential.IssuerMetadata(did, keys)
	must(err)
	out.did, out.metadata = writeFile(t, "did.json", document), writeFile(t, "issuer.json", metadata)
	for name, set := range map[*string][]int{&out.list: nil, &out.revoked: {12}} {
		bits, err := credential.NewBitstring(set...)
		must(err)
		l := credential.StatusList{URL: list, Issuer: did, Bits: bits, Issued: now, Lifetime: time.Hour}
		signed, err := credential.SignStatusList(l, ed)
		must(err)
		*name = writeFile(t, "list.json", signed)
		if set == nil {
			token, err := credential.SignStatusToken(l, ec)
			must(err)
			out.tokenList = writeFile(t, "list.jwt", []byte(token))
		}
	}
	return out
}

func TestVerifyCredential(t *testing.T) {
	t.Parallel()
	issued, other := issueCredential(t), issueCredential(t)
	for name, tc := range map[string]struct {
		file []byte
		args []string
		code int
		want []string
	}{
		"nothing fetched": {issued.json, nil, exitUnknown, []string{
			"CANNOT TELL: Could not check the signature: the issuer's key was not fetched.", "--online", "--document", "stated by the file, not verified", "not checked",
			"Who runs the website vault.invalid/institutions/" + university, "Ada Lovelace\\u202e\\x1b[31m",
		}},
		"saved documents": {issued.json, []string{"--document", issued.did, "--document", issued.list}, exitDone, []string{
			"VALID: The website vault.invalid/institutions/" + university + " signed the credential.", "The issuer has not revoked the credential.", "which calls itself Northwest University",
		}},
		"no status list": {issued.json, []string{"--document", issued.did}, exitUnknown, []string{
			"CANNOT TELL: Could not check whether the credential was revoked: the issuer's status list was not fetched.", "passed        The signature is valid",
		}},
		"revoked":          {issued.json, []string{"--document", issued.did, "--document", issued.revoked}, exitInvalid, []string{"NOT VALID: The issuer revoked the credential."}},
		"another's list":   {issued.json, []string{"--document", issued.did, "--document", other.list}, exitUnknown, []string{"the issuer's status list is not valid"}},
		"another's keys":   {issued.json, []string{"--document", other.did, "--document", other.list}, exitInvalid, []string{"NOT VALID: The key of the signature does not belong to the issuer."}},
		"changed":          {bytes.Replace(issued.json, []byte("Ada"), []byte("Eda"), 1), []string{"--document", issued.did}, exitInvalid, []string{"NOT VALID: The signature is not valid"}},
		"badge":            {issued.picture, []string{"--document", issued.did, "--document", issued.list}, exitDone, []string{"VALID: ", "a credential in a PNG picture"}},
		"token":            {issued.token, []string{"--document", issued.did, "--document", issued.list}, exitDone, []string{"VALID: "}},
		"SD-JWT":           {issued.sdJWT, []string{"--document", issued.metadata, "--document", issued.tokenList}, exitDone, []string{"VALID: "}},
		"JSON, no context": {[]byte(`{"a":1}`), nil, exitInvalid, []string{"NOT VALID: A required part of the credential is missing or damaged."}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			code, out, errs := certvault(t, "", append([]string{"verify", writeFile(t, "badge", tc.file)}, tc.args...)...)
			if code != tc.code || errs != "" {
				t.Errorf("exit code = %d, want %d and no error: %s", code, tc.code, errs)
			}
			for _, want := range tc.want {
				if !strings.Contains(out, want) {
					t.Errorf("the output does not contain %q:\n%s", want, out)
				}
			}
		})
	}
}

func TestVerifyCredentialJSON(t *testing.T) {
	t.Parallel()
	issued := issueCredential(t)
	var report credential.Report
	runJSON(t, "", &report, "verify", "--json", "--document", issued.did, "--document", issued.list, writeFile(t, "badge.png", issued.picture))
	if report.Verdict != credential.Valid || len(report.Checks) != 5 || report.Statement.Title != "BSc Computer Science" || report.Carrier != credential.CarrierPNG {
		t.Errorf("the report is %+v, want a valid credential in a PNG picture with 5 checks", report)
	}
}

func TestVerifyCredentialErrors(t *testing.T) {
	t.Parallel()
	issued := issueCredential(t)
	damaged := writeFile(t, "badge.png", issued.picture[:60])
	code, out, errs := certvault(t, "", "verify", damaged)
	if code != exitUnknown || !strings.HasPrefix(out, "CANNOT TELL: the picture is damaged") || errs != "" {
		t.Errorf("damaged picture: exit code = %d, want %d and CANNOT TELL without an error; output %q, error %q", code, exitUnknown, out, errs)
	}
	for name, args := range map[string][]string{
		"damaged picture":  {"--json", damaged},
		"missing document": {writeFile(t, "c.json", issued.json), "--document", missingFolder(t)},
		"other document":   {writeFile(t, "c.json", issued.json), "--document", writeFile(t, "x.json", []byte("{}"))},
	} {
		if code, out, errs := certvault(t, "", append([]string{"verify"}, args...)...); code != exitUnknown || out != "" || errs == "" {
			t.Errorf("%s: exit code = %d, want %d and only an error; output %q, error %q", name, code, exitUnknown, out, errs)
		}
	}
}

// TestCheckText checks that each check and each code has a text.
func TestCheckText(t *testing.T) {
	t.Parallel()
	for _, name := range []credential.CheckName{credential.CheckForm, credential.CheckIssuer, credential.CheckProof, credential.CheckPeriod, credential.CheckStatus} {
		if checkText(credential.Check{Name: name, Result: credential.Passed}) == "" {
			t.Errorf("the check %s has no text for the result passed", name)
		}
	}
	for _, code := range credential.Codes {
		for _, name := range []credential.CheckName{credential.CheckIssuer, credential.CheckStatus} {
			if checkText(credential.Check{Name: name, Result: credential.NotRun, Code: code}) == "" {
				t.Errorf("the code %s of the check %s has no text", code, name)
			}
		}
	}
}

// TestOnlineIsGuarded checks that --online fetches nothing from a loopback address unless --allow permits it.
func TestOnlineIsGuarded(t *testing.T) {
	t.Parallel()
	for _, allow := range []string{"", "127.0.0.0/8"} {
		f := credentialFlags{Online: true}
		if allow != "" {
			f.Allow = append(f.Allow, netip.MustParsePrefix(allow))
		}
		fetcher, err := f.fetcher()
		if err != nil {
			t.Fatal(err)
		}
		_, err = fetcher.Fetch(context.Background(), "https://127.0.0.1:1/did.json", "application/json")
		if blocked := err != nil && strings.Contains(err.Error(), "not allowed"); blocked != (allow == "") {
			t.Errorf("--allow %q: blocked = %t, want %t: %v", allow, blocked, allow == "", err)
		}
	}
}

// TestVerifyWithoutOwnVault checks that a credential of another vault can be verified if --data names a
// vault that cannot be opened, or an empty folder.
func TestVerifyWithoutOwnVault(t *testing.T) {
	t.Parallel()
	issued := issueCredential(t)
	damaged := t.TempDir()
	if err := os.WriteFile(filepath.Join(damaged, db.FileName), []byte("not a database"), 0o600); err != nil {
		t.Fatal(err)
	}
	for folder, want := range map[string]string{damaged: "cannot be opened", t.TempDir(): ""} {
		code, out, errs := certvault(t, "", "verify", writeFile(t, "c.json", issued.json), "--document", issued.did, "--document", issued.list, "--data", folder)
		if code != exitDone || !strings.HasPrefix(out, "VALID: ") || (want == "") != (errs == "") || !strings.Contains(errs, want) {
			t.Errorf("exit code = %d, want 0, VALID and the error %q; output %q, error %q", code, want, out, errs)
		}
	}
}
