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

// remote is a vault that is used through its interface.
type remote struct {
	URL       string `default:"https://localhost:8443" help:"Base address of the vault." name:"url"`
	TokenFile string `help:"File with the API token. Default: the environment variable CERTVAULT_TOKEN." placeholder:"FILE" type:"path"`
	CA        string `help:"File with the certificate to trust, for a vault with a self-signed one." name:"ca" placeholder:"FILE" type:"path"`
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
			return nil, &usageError{fmt.Errorf("--ca: there is no certificate in %s", r.CA)}
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
		return "", &usageError{errors.New("there is no API token: set " + tokenVariable + " or give --token-file")}
	}
	return secret, nil
}

// userError returns an error of the vault as a message for the user of the command: it names the wrong
// field, but no details of the request.
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

// bar is a progress bar. It is shown only on a terminal.
type bar struct {
	w     io.Writer
	width int
	last  time.Time
	shown int
}

const (
	barWidth = 30
	barEvery = 100 * time.Millisecond
)

// newBar returns a bar for standard error, or nil if it is not a terminal.
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

// set draws the bar, at most once per barEvery.
func (b *bar) set(done, total int64, text string) {
	if b == nil || total <= 0 || time.Since(b.last) < barEvery && done < total {
		return
	}
	b.last = time.Now()
	part := int(min(done, total) * int64(b.width) / total)
	line := fmt.Sprintf("[%s%s] %3d %%  %s", strings.Repeat("#", part), strings.Repeat(".", b.width-part), min(done, total)*100/total, text)
	_, _ = fmt.Fprintf(b.w, "\r%s%s", line, strings.Repeat(" ", max(0, b.shown-len(line))))
	b.shown = len(line)
}

// end removes the bar.
func (b *bar) end() {
	if b == nil || b.shown == 0 {
		return
	}
	_, _ = fmt.Fprintf(b.w, "\r%s\r", strings.Repeat(" ", b.shown))
	b.shown = 0
}
