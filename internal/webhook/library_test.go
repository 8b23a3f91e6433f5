package webhook_test

import (
	"bytes"
	"encoding/json"
	"maps"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	standard "github.com/standard-webhooks/standard-webhooks/libraries/go"

	"github.com/certvault/certvault/internal/db/dbtest"
	"github.com/certvault/certvault/internal/webhook"
)

// testDelivery is a delivery and the secret with which a receiver verifies it.
type testDelivery struct {
	Secret  string            `json:"secret"`
	Headers map[string]string `json:"headers"`
	Body    []byte            `json:"body"` // base64 in JSON
	// plain and standard report whether X-Webhook-Signature and webhook-signature are valid.
	plain, standard bool
}

// testDeliveries returns deliveries that were sent before a rotation, during it and after Promote, and
// modified copies of the first delivery.
func testDeliveries(t *testing.T) map[string]testDelivery {
	t.Helper()
	f := open(t, dbtest.Open(t, t.TempDir(), "")).withRealClock()
	inst := f.institution(t, "AAA")
	certificate := f.certificate(t, inst)
	r := startReceiver(t, nil)
	e, first := f.endpointAt(t, inst, r.URL)
	f.startDeliverer(t, webhook.DelivererConfig{})
	get := func(secret string, plain bool) testDelivery {
		f.emit(t, inst, certificate, 1)
		got := r.next(t)
		f.waitUntil(t, "the attempt is recorded", func() bool { return f.pending(t, 0) == 0 })
		l := testDelivery{Secret: secret, Headers: map[string]string{}, Body: got.body, plain: plain, standard: true}
		for name := range got.header {
			l.Headers[strings.ToLower(name)] = got.header.Get(name)
		}
		return l
	}
	list := map[string]testDelivery{"unchanged": get(first, true)}
	second, _, err := f.Rotate(t.Context(), inst, e.UUID)
	if err != nil {
		t.Fatal(err)
	}
	list["during a rotation, old secret"], list["during a rotation, new secret"] = get(first, true), get(second, false)
	if err := f.Promote(t.Context(), inst, e.UUID); err != nil {
		t.Fatal(err)
	}
	list["promoted, new secret"], list["promoted, old secret"] = get(second, true), get(first, false)

	sent := list["unchanged"]
	changed := func(name string, change func(l *testDelivery)) {
		l := sent
		l.Headers, l.Body = maps.Clone(sent.Headers), bytes.Clone(sent.Body)
		change(&l)
		list[name] = l
	}
	changed("another body", func(l *testDelivery) { l.Body[10] ^= 1; l.plain, l.standard = false, false })
	changed("another secret", func(l *testDelivery) { l.Secret = second; l.plain, l.standard = false, false })
	changed("another id", func(l *testDelivery) { l.Headers["webhook-id"] = "x"; l.standard = false })
	changed("another time", func(l *testDelivery) {
		l.Headers["webhook-timestamp"] = strconv.FormatInt(time.Now().Unix()+1, 10)
		l.standard = l.Headers["webhook-timestamp"] == sent.Headers["webhook-timestamp"]
	})
	changed("no signature", func(l *testDelivery) {
		delete(l.Headers, "webhook-signature")
		delete(l.Headers, "x-webhook-signature")
		l.plain, l.standard = false, false
	})
	changed("half a signature", func(l *testDelivery) {
		for _, name := range []string{"webhook-signature", "x-webhook-signature"} {
			l.Headers[name] = l.Headers[name][:20]
		}
		l.plain, l.standard = false, false
	})
	return list
}

func (l *testDelivery) header() http.Header {
	h := http.Header{}
	for name, value := range l.Headers {
		h.Set(name, value)
	}
	return h
}

func TestGoLibraryVerifiesDeliveries(t *testing.T) {
	t.Parallel()
	for name, l := range testDeliveries(t) {
		w, err := standard.NewWebhook(l.Secret)
		if err != nil {
			t.Fatal(err)
		}
		if err := w.Verify(l.Body, l.header()); (err == nil) != l.standard {
			t.Errorf("%s: Verify: error = %v, want valid = %v", name, err, l.standard)
		}
	}
}

func TestNodeLibrariesVerifyDeliveries(t *testing.T) {
	t.Parallel()
	dir := filepath.Join("..", "..", "test", "receivers")
	node := program(t, "node")
	if _, err := os.Stat(filepath.Join(dir, "node_modules")); err != nil {
		skipOrFail(t, "the npm libraries are missing: run make deps")
	}
	var names []string
	var input bytes.Buffer
	list := testDeliveries(t)
	for _, library := range []string{"standardwebhooks", "svix"} {
		for name, l := range list {
			names = append(names, library+": "+name)
			line, err := json.Marshal(struct {
				Library string `json:"library"`
				testDelivery
			}{library, l})
			if err != nil {
				t.Fatal(err)
			}
			input.Write(append(line, '\n'))
		}
	}
	cmd := exec.CommandContext(t.Context(), node, "verify.mjs")
	cmd.Dir, cmd.Stdin = dir, &input
	out, err := cmd.CombinedOutput()
	if err != nil {
		t.Fatalf("verify.mjs: %v\n%s", err, out)
	}
	lines := strings.Split(strings.TrimSpace(string(out)), "\n")
	if len(lines) != len(names) {
		t.Fatalf("got %d results for %d deliveries:\n%s", len(lines), len(names), out)
	}
	for i, name := range names {
		_, delivery, _ := strings.Cut(name, ": ")
		if (lines[i] == "good") != list[delivery].standard {
			t.Errorf("%s: verify.mjs reports %s, want valid = %v", name, lines[i], list[delivery].standard)
		}
	}
}

// drivers contains the code that makes a program of each sample. The program reads a delivery from
// standard input, calls both functions of the sample and prints the results.
var drivers = map[string]struct{ program, file, before, after string }{
	"js": {program: "node", file: "sample.mjs", after: `
const { secret, headers, body } = JSON.parse((await import('node:fs')).readFileSync(0, 'utf8'));
console.log(verifyPlain(secret, headers, Buffer.from(body, 'base64')), verifyStandard(secret, headers, Buffer.from(body, 'base64')));
`},
	"python": {program: "python3", file: "sample.py", after: `
import json, sys
d = json.load(sys.stdin)
args = d["secret"], d["headers"], base64.b64decode(d["body"])
print(str(verify_plain(*args)).lower(), str(verify_standard(*args)).lower())
`},
	"php": {program: "php", file: "sample.php", before: "<?php\n", after: `
$d = json_decode(file_get_contents('php://stdin'), true);
$args = [$d['secret'], $d['headers'], base64_decode($d['body'])];
echo var_export(verify_plain(...$args), true), ' ', var_export(verify_standard(...$args), true), "\n";
`},
	"go": {program: "go", file: "sample.go", before: "package main\n", after: `
func main() {
	var d struct { Secret string; Headers map[string]string; Body []byte }
	if err := json.NewDecoder(os.Stdin).Decode(&d); err != nil { panic(err) }
	h := http.Header{}
	for k, v := range d.Headers { h.Set(k, v) }
	fmt.Println(verifyPlain(d.Secret, h, d.Body), verifyStandard(d.Secret, h, d.Body, time.Now()))
}
`},
}

// The samples verify real deliveries, and the documentation contains the same samples.
func TestSamples(t *testing.T) {
	t.Parallel()
	text, err := os.ReadFile(filepath.Join("..", "..", "docs", "webhooks.md"))
	if err != nil {
		t.Fatal(err)
	}
	list := testDeliveries(t)
	if len(webhook.Samples) != len(drivers) {
		t.Errorf("got %d samples, want %d, one for each driver", len(webhook.Samples), len(drivers))
	}
	for _, s := range webhook.Samples {
		language := s.Name
		d, sample := drivers[language], s.Code
		t.Run(language, func(t *testing.T) {
			t.Parallel()
			if !strings.Contains(string(text), "```"+language+"\n"+sample+"```\n") {
				t.Error("docs/webhooks.md does not contain this sample")
			}
			program := program(t, d.program)
			if language == "go" {
				sample = strings.Replace(sample, "import (", "import (\n\"encoding/json\"\n\"fmt\"\n\"os\"\n", 1)
			}
			dir := t.TempDir()
			file := filepath.Join(dir, d.file)
			if err := os.WriteFile(file, []byte(d.before+sample+d.after), 0o600); err != nil {
				t.Fatal(err)
			}
			args := []string{file}
			if language == "go" {
				built := filepath.Join(dir, "sample")
				if out, err := exec.CommandContext(t.Context(), program, "build", "-o", built, file).CombinedOutput(); err != nil {
					t.Fatalf("go build: %v\n%s", err, out)
				}
				program, args = built, nil
			}
			for name, l := range list {
				input, err := json.Marshal(l)
				if err != nil {
					t.Fatal(err)
				}
				cmd := exec.CommandContext(t.Context(), program, args...)
				cmd.Stdin = bytes.NewReader(input)
				out, err := cmd.CombinedOutput()
				if want := strconv.FormatBool(l.plain) + " " + strconv.FormatBool(l.standard); err != nil || strings.TrimSpace(string(out)) != want {
					t.Errorf("%s: output = %s, error = %v, want %s", name, out, err, want)
				}
			}
		})
	}
}

// program returns the path of a program that the test requires.
func program(t *testing.T, name string) string {
	t.Helper()
	path, err := exec.LookPath(name)
	if err != nil {
		skipOrFail(t, name+" is not installed: run make deps")
	}
	return path
}

// skipOrFail skips the test, or fails it if the variable CI is "true".
func skipOrFail(t *testing.T, reason string) {
	t.Helper()
	if os.Getenv("CI") == "true" {
		t.Fatal(reason)
	}
	t.Skip(reason)
}
