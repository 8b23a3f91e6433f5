package main

import (
	"context"
	"crypto/x509"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"
	"time"

	"github.com/certvault/certvault/client"
)

// tokenVariable is the environment variable with the API token. An argument would be visible in the
// list of processes.
const tokenVariable = "CERTVAULT_TOKEN" //nolint:gosec // the name of a variable, not a token

// remote has the flags of a command that uses a vault through the interface.
type remote struct {
	URL       string `default:"https://localhost:8443" help:"Base address of the vault." name:"url"`
	TokenFile string `help:"File with the API token. Default: the environment variable CERTVAULT_TOKEN." placeholder:"FILE" type:"path"`
	CA        string `help:"File with the certificate to trust, for a vault with a self-signed certificate." name:"ca" placeholder:"FILE" type:"path"`
}

func (r *remote) connect() (*client.Client, error) {
	secret, err := r.token()
	if err != nil {
		return nil, err
	}
	config := client.Config{URL: r.URL, Token: secret, UserAgent: "certvault"}
	if r.CA != "" {
		pem, err := os.ReadFile(r.CA)
		if err != nil {
			return nil, &usageError{fmt.Errorf("--ca: %w", err)}
		}
		config.RootCAs = x509.NewCertPool()
		if !config.RootCAs.AppendCertsFromPEM(pem) {
			return nil, &usageError{fmt.Errorf("--ca: the file %s has no certificate", r.CA)}
		}
	}
	c, err := client.New(config)
	if err != nil {
		return nil, &usageError{err}
	}
	return c, nil
}

func (r *remote) token() (string, error) {
	secret := os.Getenv(tokenVariable)
	if r.TokenFile != "" {
		text, err := os.ReadFile(r.TokenFile)
		if err != nil {
			return "", &usageError{fmt.Errorf("--token-file: %w", err)}
		}
		secret = string(text)
	}
	if secret = strings.TrimSpace(secret); secret == "" {
		return "", &usageError{errors.New("no API token is given; set " + tokenVariable + " or --token-file")}
	}
	return secret, nil
}

// userError converts an error of the vault to a message for the user of the command. The message
// has the invalid fields, and the request id if the vault failed. An interruption gets a short
// message. Other errors are returned unchanged.
func userError(err error) error {
	if errors.Is(err, context.Canceled) {
		return errors.New("interrupted")
	}
	e, ok := errors.AsType[*client.Error](err)
	if !ok {
		return err
	}
	text := e.Detail()
	if e.RequestID != "" && e.Status >= 500 {
		text += " (request " + e.RequestID + ")"
	}
	return errors.New(text)
}

// bar is a progress bar. It is displayed only on a terminal.
type bar struct {
	w     io.Writer
	width int
	last  time.Time
	drawn int
}

const (
	barWidth = 30
	barEvery = 100 * time.Millisecond
)

// newBar returns a bar on w, or nil if w is not a terminal or the terminal is dumb.
func newBar(w io.Writer) *bar {
	file, ok := w.(*os.File)
	if !ok {
		return nil
	}
	info, err := file.Stat()
	if err != nil || info.Mode()&os.ModeCharDevice == 0 || os.Getenv("TERM") == "dumb" {
		return nil
	}
	return &bar{w: w, width: barWidth}
}

// set draws the bar, at most once per barEvery until the bar is full.
func (b *bar) set(done, total int64, text string) {
	if b == nil || total <= 0 || time.Since(b.last) < barEvery && done < total {
		return
	}
	b.last = time.Now()
	part := int(min(done, total) * int64(b.width) / total)
	line := fmt.Sprintf("[%s%s] %3d %%  %s", strings.Repeat("#", part), strings.Repeat(".", b.width-part), min(done, total)*100/total, text)
	_, _ = fmt.Fprintf(b.w, "\r%s%s", line, strings.Repeat(" ", max(0, b.drawn-len(line))))
	b.drawn = len(line)
}

// end removes the bar.
func (b *bar) end() {
	if b == nil || b.drawn == 0 {
		return
	}
	_, _ = fmt.Fprintf(b.w, "\r%s\r", strings.Repeat(" ", b.drawn))
	b.drawn = 0
}
