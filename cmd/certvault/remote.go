package main

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"os"
	"strings"
	"sync"
	"time"

	"github.com/certvault/certvault/client"
)

// tokenVariable is the environment variable with the API token. There is no flag for the token, because
// arguments are visible in the list of processes.
const tokenVariable = "CERTVAULT_TOKEN" //nolint:gosec // the name of a variable, not a token

// remote has the flags of a command that uses a vault through the API.
type remote struct {
	URL       string `default:"https://localhost:8443" help:"Base address of the vault." name:"url"`
	TokenFile string `help:"File with the API token. Default: the environment variable CERTVAULT_TOKEN." placeholder:"FILE" type:"path"`
	CA        string `help:"File with the certificate to trust, for a vault with a self-signed certificate." name:"ca" placeholder:"FILE" type:"path"`

	retries *retryPrinter
}

// connect returns a client for the vault. The client prints to stderr that it repeats a call. Before
// each message it calls beforePrint, which removes the progress bar and may be nil.
func (r *remote) connect(stderr io.Writer, beforePrint func()) (*client.Client, error) {
	secret, err := r.token()
	if err != nil {
		return nil, err
	}
	r.retries = &retryPrinter{w: stderr, url: r.URL, beforePrint: beforePrint}
	config := client.Config{URL: r.URL, Token: secret, UserAgent: "certvault", OnRetry: r.retries.print}
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

// retryPrinter prints that a command repeats a call. It prints the error of the first attempt at once,
// and then at most one line per retryEvery.
type retryPrinter struct {
	w           io.Writer
	url         string
	beforePrint func()

	mu     sync.Mutex
	last   time.Time
	silent bool
}

// stop ends the output of the printer.
func (p *retryPrinter) stop() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.silent = true
}

const retryEvery = 3 * time.Second

func (p *retryPrinter) print(r client.Retrying) {
	p.mu.Lock()
	defer p.mu.Unlock()
	first := p.last.IsZero()
	if p.silent || !first && time.Since(p.last) < retryEvery {
		return
	}
	p.last = time.Now()
	if p.beforePrint != nil {
		p.beforePrint()
	}
	if first {
		printf(p.w, "certvault: %s; retrying for up to %s\n", callError(p.url, r.Err), (r.Rest + time.Second - 1).Truncate(time.Second))
		return
	}
	printf(p.w, "certvault: attempt %d of %d failed; next attempt in %s\n", r.Attempt, r.Attempts, r.Wait.Round(100*time.Millisecond))
}

// callError converts an error of a call to a short message for the user of the command. It returns
// errors other than a *client.Error or a *url.Error unchanged.
func callError(vault string, err error) error {
	if e, ok := errors.AsType[*client.Error](err); ok {
		text := e.Detail()
		if text == "" {
			text = http.StatusText(e.Status)
		}
		if e.RequestID != "" && e.Status >= 500 {
			text += " (request " + e.RequestID + ")"
		}
		if e.Status >= 500 {
			text = "the vault cannot serve the request: " + text
		}
		return errors.New(text)
	}
	if u, ok := errors.AsType[*url.Error](err); ok {
		return fmt.Errorf("%s does not respond (%w)", vault, u.Err)
	}
	return err
}

// userError converts an error of a call to a message for the user of the command. If the vault does not
// respond or its TLS certificate is not trusted, or if the token is invalid, the message says what to check.
func (r *remote) userError(err error) error {
	if errors.Is(err, context.Canceled) {
		return errors.New("interrupted")
	}
	if untrusted, ok := errors.AsType[*tls.CertificateVerificationError](err); ok {
		return fmt.Errorf("the TLS certificate of %s is not trusted (%w); if the vault uses its own certificate, set --ca to the file tls/cert.pem of its data folder",
			r.URL, untrusted.Err)
	}
	if errors.Is(err, client.ErrUnauthorized) {
		return fmt.Errorf("%w; check the token in %s or --token-file", callError(r.URL, err), tokenVariable)
	}
	if _, ok := errors.AsType[*url.Error](err); ok {
		return fmt.Errorf("%w; check that the vault is running and that --url is its address", callError(r.URL, err))
	}
	return callError(r.URL, err)
}

// bar is a progress bar. It is displayed only on a terminal.
type bar struct {
	w     io.Writer
	width int

	mu    sync.Mutex // the callbacks of a client run on other goroutines
	last  time.Time
	drawn int
}

const (
	barWidth = 30
	barEvery = 100 * time.Millisecond
)

// newBar returns a bar on w, or nil if w is not a terminal or TERM is dumb.
func newBar(w io.Writer) *bar {
	if !isTerminal(w) || os.Getenv("TERM") == "dumb" {
		return nil
	}
	return &bar{w: w, width: barWidth}
}

// isTerminal reports whether a writer is a terminal or another character device.
func isTerminal(w io.Writer) bool {
	file, ok := w.(*os.File)
	if !ok {
		return false
	}
	info, err := file.Stat()
	return err == nil && info.Mode()&os.ModeCharDevice != 0
}

// set draws the bar, at most once per barEvery until the bar is full.
func (b *bar) set(done, total int64, text string) {
	if b == nil || total <= 0 {
		return
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	if time.Since(b.last) < barEvery && done < total {
		return
	}
	b.last = time.Now()
	part := int(min(done, total) * int64(b.width) / total)
	b.draw(fmt.Sprintf("[%s%s] %3d %%  %s", strings.Repeat("#", part), strings.Repeat(".", b.width-part), min(done, total)*100/total, text))
}

// text draws a text in place of the bar.
func (b *bar) text(line string) {
	if b == nil {
		return
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	b.draw(line)
}

func (b *bar) draw(line string) {
	_, _ = fmt.Fprintf(b.w, "\r%s%s", line, strings.Repeat(" ", max(0, b.drawn-len(line))))
	b.drawn = len(line)
}

// end removes the bar.
func (b *bar) end() {
	if b == nil {
		return
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.drawn == 0 {
		return
	}
	_, _ = fmt.Fprintf(b.w, "\r%s\r", strings.Repeat(" ", b.drawn))
	b.drawn = 0
}
