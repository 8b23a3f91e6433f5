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

// tokenVariable is where commands find the API token: an argument would show in
// the list of processes.
const tokenVariable = "CERTVAULT_TOKEN" //nolint:gosec // the name of a variable, no token

// remote is a vault that is reached through its interface.
type remote struct {
	URL       string `default:"https://localhost:8443"                                                help:"Base address of the vault." name:"url"`
	TokenFile string `help:"File with the API token. Default: the environment variable CERTVAULT_TOKEN." placeholder:"FILE" type:"path"`
	CA        string `help:"File with the certificate to trust, for a vault that made its own."          name:"ca" placeholder:"FILE" type:"path"`
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

// told gives an error of the vault in words for who typed the command: what is
// wrong with which field, and nothing of how it was sent.
func told(err error) error {
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

// bar shows how far a long command is, on a terminal and nowhere else.
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

// newBar gives a bar for standard error; none where nobody looks.
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

// set draws the bar, not more often than anybody could see.
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

// end takes the bar away.
func (b *bar) end() {
	if b == nil || b.shown == 0 {
		return
	}
	_, _ = fmt.Fprintf(b.w, "\r%s\r", strings.Repeat(" ", b.shown))
	b.shown = 0
}
