package main

import (
	"bytes"
	"context"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"unicode"

	"github.com/certvault/certvault/internal/pdf"
)

// hostileText contains control characters that clear the screen, set the title of the window, reverse the
// direction of text, move the cursor, delete characters and begin a line.
const hostileText = "\x1b[2J\x1b]0;title\x07 \u202eDILAV\u202c \u009b1A \x7f\u2066x\u2069\r\n\x08end"

// TestVerifyEscapesControlCharacters checks that control characters in the name of a signer, a field or a
// file are escaped in the output.
func TestVerifyEscapesControlCharacters(t *testing.T) {
	t.Parallel()
	v := newSigningVault(t, "Evil "+hostileText)
	file := v.sign(t, diploma(t))
	doc := openPDF(t, file)
	u := doc.Update()
	field := u.Add(pdf.NewDict(pdf.Entry{Key: "FT", Value: pdf.Name("Sig")}, pdf.Entry{Key: "T", Value: pdf.TextString("Field " + hostileText)},
		pdf.Entry{Key: "V", Value: u.Add(pdf.NewDict(pdf.Entry{Key: "SubFilter", Value: pdf.Name("Sub " + hostileText)}, pdf.Entry{Key: "Contents", Value: pdf.String("x")}))}))
	form := u.Dict(u.Catalog().Get("AcroForm")).Clone()
	form.Set("Fields", append(append(pdf.Array{}, u.Array(form.Get("Fields"))...), field))
	u.SetCatalog(u.Catalog().Clone().Set("AcroForm", form))
	tail, err := u.Bytes()
	if err != nil {
		t.Fatal(err)
	}
	path := writeFile(t, "diploma "+strings.ReplaceAll(hostileText, "/", "")+".pdf", append(file, tail...))
	for _, args := range [][]string{
		{"verify", path, "--data", v.data},
		{"verify", path, "--data", v.data, "--json"},
		{"verify", path + hostileText, "--data", v.data},
		{"verify", path, "--root", path},
		{"verify", path, "--root", missingFolder(t) + hostileText},
	} {
		_, out, errs := certvault(t, "", args...)
		if out+errs == "" {
			t.Errorf("%q prints no output", args)
		}
		for _, r := range out + errs {
			if r != '\n' && !unicode.IsPrint(r) {
				t.Errorf("%q prints the non-printable character %q:\n%q", args, r, out+errs)
				break
			}
		}
		if strings.Contains(out, "\nend") {
			t.Errorf("a name added a line to the output:\n%s", out)
		}
	}
	if _, out, _ := certvault(t, "", "verify", path, "--data", v.data); !strings.Contains(out, "Field ") || !strings.Contains(out, "Evil ") {
		t.Errorf("the output does not contain the names of the field and of the signer:\n%s", out)
	}
}

// TestVerifyRejectsInvalidInput checks that the command fails with exitUnknown and prints no report if its
// arguments are invalid, or if the file or a root cannot be read. It must not block on a pipe or a device.
func TestVerifyRejectsInvalidInput(t *testing.T) {
	t.Parallel()
	v := newSigningVault(t, "Northwest University")
	dir := t.TempDir()
	pipe, large, damaged := filepath.Join(dir, "pipe"), filepath.Join(dir, "large"), writeFile(t, "root.pem", []byte("-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----\n"))
	runTool(t, "mkfifo", pipe)
	if err := errors.Join(os.WriteFile(large, nil, 0o600), os.Truncate(large, maxVerified+1)); err != nil {
		t.Fatal(err)
	}
	broken := newSigningVault(t, "x")
	if err := os.WriteFile(filepath.Join(broken.data, "root.pem"), []byte("{"), 0o600); err != nil {
		t.Fatal(err)
	}
	file := writeFile(t, "diploma.pdf", v.sign(t, diploma(t)))
	for name, tc := range map[string]struct {
		args []string
		want string
	}{
		"missing file":     {[]string{filepath.Join(dir, "none.pdf")}, "no such file"},
		"standard input":   {[]string{"-"}, "no such file"},
		"a folder":         {[]string{dir}, "a folder"},
		"a pipe":           {[]string{pipe}, "a pipe"},
		"a device":         {[]string{"/dev/zero"}, "a device"},
		"too large":        {[]string{large}, "the limit is 256 MB"},
		"no argument":      {nil, "expected \"<file>\""},
		"two files":        {[]string{file, file}, "unexpected argument"},
		"no such root":     {[]string{file, "--root", filepath.Join(dir, "none.pem")}, "--root: "},
		"root is a folder": {[]string{file, "--root", dir}, "a folder"},
		"root is a pipe":   {[]string{file, "--root", pipe}, "a pipe"},
		"root is a PDF":    {[]string{file, "--root", file}, "contains no PEM certificate"},
		"damaged root":     {[]string{file, "--root", damaged}, "damaged"},
		"no TSA root":      {[]string{file, "--tsa-root", file}, "--tsa-root: "},
		"broken roots":     {[]string{file, "--data", broken.data}, "specify the root with --root"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			code, out, errs := certvault(t, "", append([]string{"verify"}, tc.args...)...)
			if code != exitUnknown || out != "" || !strings.Contains(errs, tc.want) {
				t.Errorf("exit code = %d, want %d, no output and an error with %q: %s%s", code, exitUnknown, tc.want, out, errs)
			}
		})
	}
}

// TestVerifyIsInterrupted checks that the command fails after an interrupt.
func TestVerifyIsInterrupted(t *testing.T) {
	t.Parallel()
	v := newSigningVault(t, "Northwest University")
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	var out, errs bytes.Buffer
	code := run(ctx, []string{"verify", writeFile(t, "diploma.pdf", v.sign(t, diploma(t))), "--data", v.data}, strings.NewReader(""), &out, &errs)
	if code != exitUnknown || out.Len() > 0 || !strings.Contains(errs.String(), "canceled") {
		t.Errorf("exit code = %d, want %d and an error that says canceled: %s%s", code, exitUnknown, out.String(), errs.String())
	}
}

// TestVerifyCreatesNoFiles checks that the command creates neither a data folder nor a file in it.
func TestVerifyCreatesNoFiles(t *testing.T) {
	t.Parallel()
	v := newSigningVault(t, "Northwest University")
	file, data := writeFile(t, "diploma.pdf", v.sign(t, diploma(t))), missingFolder(t)
	certvault(t, "", "verify", file, "--data", data)
	if _, err := os.Stat(data); err == nil {
		t.Error("the data folder was created")
	}
	certvault(t, "", "verify", file, "--data", v.data)
	list, err := os.ReadDir(v.data)
	if err != nil || len(list) != 1 || list[0].Name() != "root.pem" {
		t.Errorf("the data folder contains %v, error %v, want only root.pem", list, err)
	}
}

// TestVerifyCorpus checks that the command prints a verdict other than VALID for each file of the corpus,
// which has many hostile files. With -short, it checks one file in eight.
func TestVerifyCorpus(t *testing.T) {
	t.Parallel()
	const corpus = "../../../shared/corpus"
	if _, err := os.Stat(corpus); err != nil {
		skipOrFail(t, "the corpus does not exist")
	}
	v := newSigningVault(t, "Northwest University")
	seen := 0
	err := filepath.WalkDir(corpus, func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		if seen++; testing.Short() && seen%8 != 0 {
			return nil
		}
		code, out, errs := certvault(t, "", "verify", path, "--data", v.data)
		if code != exitInvalid && code != exitUnknown || errs != "" || !strings.HasPrefix(out, "NOT VALID: ") && !strings.HasPrefix(out, "CANNOT TELL: ") {
			t.Errorf("%s: exit code = %d, want a verdict that is not VALID, and no error: %s%s", path, code, out, errs)
		}
		return nil
	})
	if err != nil || seen < 100 {
		t.Errorf("the corpus has %d files, error %v, want at least 100", seen, err)
	}
}
