package client

import (
	"crypto/rand"
	"encoding/base64"
	"encoding/hex"
	"errors"
	"net/http"
	"os"
	"os/exec"
	"strings"
	"testing"
	"time"
)

// The constants are the example of Standard Webhooks. vectorPlain is the value of X-Webhook-Signature
// for the same secret and body. The command openssl dgst -sha256 -mac HMAC produces both signatures.
const (
	vectorSecret   = "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw"
	vectorID       = "msg_p5jXN8AQM9LWM0D4loKWxJek"
	vectorTime     = "1614265330"
	vectorBody     = `{"test": 2432232314}`
	vectorStandard = "v1,g0hM9SsE+OTPJTGt/tmIKtSyZlE3uFJELVlNIOLJ1OE="
	vectorPlain    = "80ec8a89ce3cd22133a1066caecb4d04fea7467657c8514d717ec42c38a5c94c"
)

func verifier(secrets ...string) *Verifier {
	return &Verifier{Secrets: secrets, Now: func() time.Time { return time.Unix(1614265330, 0) }}
}

func headers(pairs ...string) http.Header {
	h := http.Header{}
	for i := 0; i < len(pairs); i += 2 {
		h.Set(pairs[i], pairs[i+1])
	}
	return h
}

func TestVerifyWebhook(t *testing.T) {
	t.Parallel()
	other := "whsec_" + base64.StdEncoding.EncodeToString(make([]byte, 32))
	wrong := "v1," + base64.StdEncoding.EncodeToString(make([]byte, 32))
	standard := headers("webhook-id", vectorID, "webhook-timestamp", vectorTime, "webhook-signature", vectorStandard)
	with := func(pairs ...string) http.Header {
		h := standard.Clone()
		for i := 0; i < len(pairs); i += 2 {
			h.Set(pairs[i], pairs[i+1])
		}
		return h
	}
	for name, tc := range map[string]struct {
		header http.Header
		body   string
		v      *Verifier
		good   bool
	}{
		"Standard Webhooks":                     {standard, vectorBody, verifier(vectorSecret), true},
		"one of several signatures":             {with("webhook-signature", wrong+" "+vectorStandard), vectorBody, verifier(vectorSecret), true},
		"one of two secrets":                    {standard, vectorBody, verifier(other, vectorSecret), true},
		"a second signature of another version": {with("webhook-signature", "v2,AAAA "+vectorStandard), vectorBody, verifier(vectorSecret), true},
		"four minutes late":                     {standard, vectorBody, &Verifier{Secrets: []string{vectorSecret}, Now: func() time.Time { return time.Unix(1614265330+240, 0) }}, true},
		"six minutes late":                      {standard, vectorBody, &Verifier{Secrets: []string{vectorSecret}, Now: func() time.Time { return time.Unix(1614265330+360, 0) }}, false},
		"six minutes early":                     {standard, vectorBody, &Verifier{Secrets: []string{vectorSecret}, Now: func() time.Time { return time.Unix(1614265330-360, 0) }}, false},
		"a larger tolerance":                    {standard, vectorBody, &Verifier{Secrets: []string{vectorSecret}, Tolerance: time.Hour, Now: func() time.Time { return time.Unix(1614265330+360, 0) }}, true},
		"another body":                          {standard, vectorBody + " ", verifier(vectorSecret), false},
		"another secret":                        {standard, vectorBody, verifier(other), false},
		"another id":                            {with("webhook-id", "msg_2"), vectorBody, verifier(vectorSecret), false},
		"another time":                          {with("webhook-timestamp", "1614265331"), vectorBody, verifier(vectorSecret), false},
		"an invalid time":                       {with("webhook-timestamp", "now"), vectorBody, verifier(vectorSecret), false},
		"no version":                            {with("webhook-signature", strings.TrimPrefix(vectorStandard, "v1,")), vectorBody, verifier(vectorSecret), false},
		"only another version":                  {with("webhook-signature", "v1a"+vectorStandard[2:]), vectorBody, verifier(vectorSecret), false},
		"a truncated signature":                 {with("webhook-signature", vectorStandard[:20]), vectorBody, verifier(vectorSecret), false},
		"an empty signature":                    {with("webhook-signature", "v1,"), vectorBody, verifier(vectorSecret), false},
		"only X-Webhook-Signature":              {headers("X-Webhook-Signature", vectorPlain), vectorBody, verifier(vectorSecret), true},
		"X-Webhook-Signature in upper case":     {headers("X-Webhook-Signature", strings.ToUpper(vectorPlain)), vectorBody, verifier(vectorSecret), true},
		"X-Webhook-Signature of another body":   {headers("X-Webhook-Signature", vectorPlain), vectorBody + "\n", verifier(vectorSecret), false},
		"X-Webhook-Signature of another secret": {headers("X-Webhook-Signature", vectorPlain), vectorBody, verifier(other), false},
		"a truncated X-Webhook-Signature":       {headers("X-Webhook-Signature", vectorPlain[:62]), vectorBody, verifier(vectorSecret), false},
		"no signature":                          {headers(), vectorBody, verifier(vectorSecret), false},
		"a valid X-Webhook-Signature and an invalid signature": {with("X-Webhook-Signature", vectorPlain, "webhook-signature", wrong), vectorBody, verifier(vectorSecret), false},
		"a valid X-Webhook-Signature and an old time":          {with("X-Webhook-Signature", vectorPlain, "webhook-timestamp", "1"), vectorBody, verifier(vectorSecret), false},
	} {
		err := tc.v.Check(tc.header, []byte(tc.body))
		if (err == nil) != tc.good || !tc.good && !errors.Is(err, ErrSignature) {
			t.Errorf("%s: Check = %v, want valid = %t, and ErrSignature if it is not valid", name, err, tc.good)
		}
	}
}

func TestVerifyWebhookRequiresASecret(t *testing.T) {
	t.Parallel()
	standard := headers("webhook-id", vectorID, "webhook-timestamp", vectorTime, "webhook-signature", vectorStandard)
	for name, v := range map[string]*Verifier{"no secret": verifier(), "an empty secret": verifier(""), "invalid base64": verifier("whsec_???"), "only the prefix whsec_": verifier("whsec_")} {
		if err := v.Check(standard, []byte(vectorBody)); err == nil || errors.Is(err, ErrSignature) {
			t.Errorf("%s: Check = %v, want an error other than ErrSignature", name, err)
		}
	}
	if err := verifier("").Check(headers("X-Webhook-Signature", vectorPlain), []byte(vectorBody)); err == nil || errors.Is(err, ErrSignature) {
		t.Errorf("an empty secret and X-Webhook-Signature: Check = %v, want an error other than ErrSignature", err)
	}
}

// TestOpenSSLSignaturesAreVerified checks that Verify accepts the signatures that openssl creates.
func TestOpenSSLSignaturesAreVerified(t *testing.T) {
	t.Parallel()
	openssl, err := exec.LookPath("openssl")
	if err != nil {
		if os.Getenv("CI") == "true" {
			t.Fatal("openssl is not installed; run make deps")
		}
		t.Skip("openssl is not installed")
	}
	sign := func(key []byte, text string) []byte {
		cmd := exec.CommandContext(t.Context(), openssl, "dgst", "-sha256", "-mac", "HMAC", "-macopt", "hexkey:"+hex.EncodeToString(key), "-binary")
		cmd.Stdin = strings.NewReader(text)
		out, err := cmd.Output()
		if err != nil {
			t.Fatal(err)
		}
		return out
	}
	for range 5 {
		key := make([]byte, 32)
		if _, err := rand.Read(key); err != nil {
			t.Fatal(err)
		}
		secret := "whsec_" + base64.StdEncoding.EncodeToString(key)
		body := `{"event":"certificate_application.approved","event_id":"` + rand.Text() + `","full_name":"李雷"}`
		h := headers("webhook-id", "an-id", "webhook-timestamp", vectorTime,
			"webhook-signature", "v1,"+base64.StdEncoding.EncodeToString(sign(key, "an-id."+vectorTime+"."+body)))
		e, err := verifier(secret).Verify(h, []byte(body))
		if err != nil || e.Event != "certificate_application.approved" || e.FullName != "李雷" {
			t.Errorf("Standard Webhooks: Verify = %+v, %v, want the event in the body", e, err)
		}
		if e, err := verifier(secret).Verify(headers("X-Webhook-Signature", hex.EncodeToString(sign([]byte(secret), body))), []byte(body)); err != nil || e.EventID == "" {
			t.Errorf("X-Webhook-Signature: Verify = %+v, %v, want the event in the body", e, err)
		}
	}
}
