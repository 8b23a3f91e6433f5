package main

import (
	"context"
	"crypto/x509"
	"encoding/pem"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"time"

	"github.com/certvault/certvault/internal/app"
	"github.com/certvault/certvault/internal/pades"
)

// verifyCommand verifies a PDF or a credential, also on a computer without a vault. It opens a database
// only for a credential, and only if --data or --database names a vault. It fetches documents from the web
// only with --online.
type verifyCommand struct {
	File    string   `arg:"" help:"The verified PDF, or a credential: JSON, JWT, SD-JWT, or a badge (PNG or SVG)."`
	Root    []string `help:"Root certificates of the vault, PEM; may be repeated." placeholder:"FILE" sep:"none"`
	TSARoot []string `help:"Root certificates of time-stamp authorities, PEM, in addition to those of the system; may be repeated." name:"tsa-root" placeholder:"FILE" sep:"none"`

	ownVaultFlags
	credentialFlags
}

// The exit codes of verify. 0 means that the file is valid.
const (
	exitInvalid = exitRefused
	exitUnknown = exitUsage
)

// The limits of input files.
const (
	// maxVerified is much larger than any file that the vault creates.
	maxVerified    = 256 << 20
	maxRootFile    = 1 << 20
	maxRootsInFile = 256
)

// exitError ends a command with a special exit code. err is printed; it is nil if the output
// already contains the reason.
type exitError struct {
	code int
	err  error
}

func (e *exitError) Error() string {
	if e.err == nil {
		return fmt.Sprintf("exit code %d", e.code)
	}
	return e.err.Error()
}

func (e *exitError) Unwrap() error { return e.err }

// Run verifies the file and prints the report. The exit code states the verdict.
func (v *verifyCommand) Run(c *console) error {
	report, err := v.verifyCredential(c)
	damaged, isDamaged := errors.AsType[*unreadable](err)
	switch {
	case errors.Is(err, errNotCredential):
	case isDamaged && !c.json:
		printf(c.stdout, "CANNOT TELL: %s.\n", damaged)
		return &exitError{code: exitUnknown}
	case err != nil:
		return &exitError{exitUnknown, err}
	case c.json:
		if err := c.print(report, nil); err != nil {
			return &exitError{exitUnknown, err}
		}
		return exit(report.Verdict)
	default:
		if err := v.writeCredential(c.stdout, report); err != nil {
			return &exitError{exitUnknown, err}
		}
		return exit(report.Verdict)
	}
	return v.verifyPDF(c)
}

// verifyPDF verifies a PDF and prints the report.
func (v *verifyCommand) verifyPDF(c *console) error {
	trusted, err := v.roots()
	if err != nil {
		return &exitError{exitUnknown, err}
	}
	report, err := verifyFile(c.ctx, v.File, trusted.options(time.Now()))
	if err != nil {
		return &exitError{exitUnknown, err}
	}
	if err := v.print(c, report, trusted); err != nil {
		return &exitError{exitUnknown, err}
	}
	switch report.Verdict {
	case pades.Valid:
		return nil
	case pades.Invalid:
		return &exitError{code: exitInvalid}
	default:
		return &exitError{code: exitUnknown}
	}
}

// print prints the report.
func (v *verifyCommand) print(c *console, report *pades.Report, trusted roots) error {
	if !c.json {
		t := textReport{report: report, trusted: trusted, file: v.File}
		_, err := io.WriteString(c.stdout, t.text())
		return err
	}
	if len(trusted.list) == 0 {
		printError(c.stderr, errNoRoot)
	}
	return c.print(report, nil)
}

// errNoRoot explains how to specify a root. It is printed with a JSON report if the command has no roots.
// The text report contains its own explanation.
var errNoRoot = errors.New("there is no root certificate; specify one with --root FILE or --data DIR, " +
	"with CERTVAULT_ROOT or CERTVAULT_DATA, or with root or data in the file of --config")

// verifyFile verifies the named file.
func verifyFile(ctx context.Context, name string, o pades.Options) (*pades.Report, error) {
	f, size, err := openRegular(name, maxVerified)
	if err != nil {
		return nil, err
	}
	defer f.Close() //nolint:errcheck // the file was only read
	report, err := pades.Verify(interruptible{ctx, f}, size, o)
	if err != nil {
		return nil, fmt.Errorf("%q cannot be read completely: %w", name, withoutName(err))
	}
	return report, nil
}

// openRegular opens a regular file of at most limit bytes and returns its size. openRegular rejects
// other files, because reading a pipe or a device might never end.
func openRegular(name string, limit int64) (*os.File, int64, error) {
	info, err := os.Stat(name)
	if err != nil {
		return nil, 0, fmt.Errorf("%q cannot be read: %w", name, withoutName(err))
	}
	if !info.Mode().IsRegular() { // this is checked first, because opening a pipe blocks
		return nil, 0, fmt.Errorf("%q is not a regular file but %s", name, kindOfFile(info.Mode()))
	}
	if info.Size() > limit {
		return nil, 0, fmt.Errorf("%q is too large: %d bytes; the limit is %d MB", name, info.Size(), limit>>20)
	}
	f, err := os.Open(name)
	if err != nil {
		return nil, 0, fmt.Errorf("%q cannot be read: %w", name, withoutName(err))
	}
	return f, info.Size(), nil
}

func kindOfFile(mode fs.FileMode) string {
	switch {
	case mode.IsDir():
		return "a folder"
	case mode&fs.ModeNamedPipe != 0:
		return "a pipe; write it to a file first"
	case mode&fs.ModeSocket != 0:
		return "a socket"
	}
	return "a device"
}

// withoutName removes the file name from an error of the file system. The name is untrusted, and
// the messages print it in quotes.
func withoutName(err error) error {
	if p, ok := errors.AsType[*fs.PathError](err); ok {
		return p.Err
	}
	return err
}

// interruptible is a file that returns an error for each read after the command was interrupted.
type interruptible struct {
	ctx context.Context //nolint:containedctx // as in console
	r   io.ReaderAt
}

// ReadAt implements [io.ReaderAt].
func (s interruptible) ReadAt(p []byte, offset int64) (int, error) {
	if err := s.ctx.Err(); err != nil {
		return 0, err
	}
	return s.r.ReadAt(p, offset)
}

// roots are the certificates with which a file is verified.
type roots struct {
	list           []*x509.Certificate
	from           string // their source, for the output
	timeStampRoots func() *x509.CertPool
}

func (r roots) options(now time.Time) pades.Options {
	return pades.Options{Roots: r.list, TimeStampRoots: r.timeStampRoots, Now: now}
}

// roots reads the certificates of --root. Without --root, it reads the roots of the data folder that
// --data names. It returns no roots if neither flag is given or if the data folder has no roots: it does
// not search the current folder. The roots for time stamps are the system's certificates and the
// certificates of --tsa-root.
func (v *verifyCommand) roots() (roots, error) {
	trusted := roots{from: "--root"}
	for _, name := range v.Root {
		list, err := readRoots("--root", name)
		if err != nil {
			return trusted, err
		}
		trusted.list = append(trusted.list, list...)
	}
	var stampRoots []*x509.Certificate
	for _, name := range v.TSARoot {
		list, err := readRoots("--tsa-root", name)
		if err != nil {
			return trusted, err
		}
		stampRoots = append(stampRoots, list...)
	}
	trusted.timeStampRoots = func() *x509.CertPool {
		pool, err := x509.SystemCertPool()
		if err != nil { // only the certificates of --tsa-root are trusted for time stamps
			pool = x509.NewCertPool()
		}
		for _, c := range stampRoots {
			pool.AddCert(c)
		}
		return pool
	}
	if len(v.Root) > 0 {
		return trusted, nil
	}
	if v.Data == "" {
		return roots{timeStampRoots: trusted.timeStampRoots}, nil
	}
	file := filepath.Join(v.Data, app.RootsFile)
	if _, err := os.Stat(file); errors.Is(err, fs.ErrNotExist) {
		return roots{timeStampRoots: trusted.timeStampRoots}, nil
	}
	var err error
	if trusted.list, err = readRoots("--data", file); err != nil {
		return trusted, fmt.Errorf("%w; specify the root with --root", err)
	}
	trusted.from = fmt.Sprintf("the data folder %q", v.Data)
	return trusted, nil
}

// readRoots reads the certificates of a PEM file. The file must have 1 to maxRootsInFile
// certificates.
func readRoots(flag, name string) ([]*x509.Certificate, error) {
	f, _, err := openRegular(name, maxRootFile)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", flag, err)
	}
	defer f.Close() //nolint:errcheck // the file was only read
	text, err := io.ReadAll(io.LimitReader(f, maxRootFile))
	if err != nil {
		return nil, fmt.Errorf("%s: %q cannot be read: %w", flag, name, withoutName(err))
	}
	var list []*x509.Certificate
	for block, rest := pem.Decode(text); block != nil; block, rest = pem.Decode(rest) {
		if block.Type != "CERTIFICATE" {
			continue
		}
		c, err := x509.ParseCertificate(block.Bytes)
		if err != nil {
			return nil, fmt.Errorf("%s: a certificate in %q is damaged: %w", flag, name, err)
		}
		if list = append(list, c); len(list) > maxRootsInFile {
			return nil, fmt.Errorf("%s: %q has more than %d certificates", flag, name, maxRootsInFile)
		}
	}
	if len(list) == 0 {
		return nil, fmt.Errorf("%s: %q contains no PEM certificate: no block begins with -----BEGIN CERTIFICATE-----", flag, name)
	}
	return list, nil
}
