//go:build e2e

package e2e

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/chromedp/cdproto/webauthn"
	"github.com/chromedp/chromedp"

	"github.com/certvault/certvault/test/vault"
)

// seeTime is the maximum wait for a state of a page.
const seeTime = 20 * time.Second

// chromium starts the browser for all tests. The browser exits with this process.
var chromium = sync.OnceValues(func() (context.Context, error) {
	path := os.Getenv("CHROMIUM")
	if path == "" {
		var err error
		if path, err = exec.LookPath("chromium"); err != nil {
			return nil, err
		}
	}
	options := append(chromedp.DefaultExecAllocatorOptions[:],
		chromedp.ExecPath(path), chromedp.NoSandbox, chromedp.IgnoreCertErrors, chromedp.WindowSize(1280, 900), chromedp.Flag("accept-lang", "en"),
		chromedp.Flag("disable-site-isolation-trials", true)) // a process for each site would make the tests slower
	allocator, _ := chromedp.NewExecAllocator(context.Background(), options...)
	browser, _ := chromedp.NewContext(allocator)
	return browser, chromedp.Do(browser)
})

// tab is a tab of the browser. It shares no cookies with other tabs.
type tab struct {
	t    *testing.T
	ctx  context.Context //nolint:containedctx // the context identifies the browser's tab
	base string
}

// browse opens a new tab for a vault. If Chromium is missing, browse skips the test, or fails the
// test if the environment variable CI is true.
func browse(t *testing.T, v *vault.Vault) *tab {
	t.Helper()
	browser, err := chromium()
	if errors.Is(err, exec.ErrNotFound) {
		if os.Getenv("CI") == "true" {
			t.Fatal("chromium is not installed: run make deps")
		}
		t.Skip("chromium is not installed: run make deps")
	}
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := chromedp.NewContext(browser, chromedp.WithNewBrowserContext())
	b := &tab{t: t, ctx: ctx, base: v.URL}
	t.Cleanup(func() {
		if t.Failed() {
			b.screenshot("failed")
		}
		cancel()
	})
	// This call creates the tab. Its context has no time limit, because the tab is closed when the context
	// ends.
	if err := chromedp.Do(ctx, chromedp.Navigate("about:blank")); err != nil {
		t.Fatal(err)
	}
	return b
}

// do performs steps within seeTime.
func (b *tab) do(what string, steps ...chromedp.Action[chromedp.Void]) {
	b.t.Helper()
	ctx, cancel := context.WithTimeout(b.ctx, seeTime)
	defer cancel()
	if err := chromedp.Do(ctx, steps...); err != nil {
		b.t.Fatalf("%s: %v; the page is %s", what, err, b.text())
	}
}

// evaluate returns the result of a script on the page.
func evaluate[T any](b *tab, script string) T {
	b.t.Helper()
	ctx, cancel := context.WithTimeout(b.ctx, seeTime)
	defer cancel()
	result, err := chromedp.Run(ctx, chromedp.Evaluate[T](script))
	if err != nil {
		b.t.Fatalf("evaluating %s: %v; the page is %s", script, err, b.text())
	}
	return result
}

// screenshot stores a screenshot in $CERTVAULT_SCREENSHOTS, or in the folder for temporary files.
func (b *tab) screenshot(name string) {
	ctx, cancel := context.WithTimeout(b.ctx, seeTime)
	defer cancel()
	png, err := chromedp.Run(ctx, chromedp.FullScreenshot(100))
	if err != nil {
		b.t.Logf("taking a screenshot: %v", err)
		return
	}
	dir := os.Getenv("CERTVAULT_SCREENSHOTS")
	if dir == "" {
		dir = os.TempDir()
	}
	file := filepath.Join(dir, strings.ReplaceAll(b.t.Name(), "/", "-")+"-"+name+".png")
	if err := os.WriteFile(file, png, 0o600); err != nil {
		b.t.Logf("taking a screenshot: %v", err)
		return
	}
	b.t.Logf("screenshot: %s", file)
}

// text returns the address and the text of the page, or an error message.
func (b *tab) text() string {
	ctx, cancel := context.WithTimeout(b.ctx, seeTime)
	defer cancel()
	text, err := chromedp.Run(ctx, chromedp.Evaluate[string](`location.href + ": " + (document.body?.innerText ?? "")`))
	if err != nil {
		return err.Error()
	}
	return strings.Join(strings.Fields(text), " ")
}

// open navigates to a path of the vault, or to a full address.
func (b *tab) open(path string) {
	b.t.Helper()
	if strings.HasPrefix(path, "/") {
		path = b.base + path
	}
	b.do("opening "+path, chromedp.Navigate(path))
}

// at waits until the page has the given path.
func (b *tab) at(path string) {
	b.t.Helper()
	b.until("the page is not at "+path, fmt.Sprintf(`document.readyState == "complete" && location.pathname == %q`, path))
}

// see waits until the page shows all given texts.
func (b *tab) see(texts ...string) {
	b.t.Helper()
	for _, text := range texts {
		b.until("the page does not show "+text, fmt.Sprintf(`document.readyState == "complete" && document.body.innerText.replace(/\s+/g, " ").includes(%q)`, text))
	}
}

// until waits until condition, a script that runs on the page, returns true. After seeTime it fails
// the test with the message problem.
func (b *tab) until(problem, condition string) {
	b.t.Helper()
	b.poll(problem, condition, nil)
}

// untilReloaded is like until, but reloads the page between two checks.
func (b *tab) untilReloaded(problem, condition string) {
	b.t.Helper()
	b.poll(problem, condition, chromedp.Reload())
}

// poll checks a condition repeatedly until it is true. If between is not nil, poll performs it between
// two checks.
func (b *tab) poll(problem, condition string, between chromedp.Action[chromedp.Void]) {
	b.t.Helper()
	ctx, cancel := context.WithTimeout(b.ctx, seeTime)
	defer cancel()
	// The page does not poll the condition, because a navigation discards the timers of the page.
	tick := time.NewTicker(20 * time.Millisecond)
	defer tick.Stop()
	for {
		if ok, err := chromedp.Run(ctx, chromedp.Evaluate[bool](condition)); err == nil && ok {
			return
		}
		select {
		case <-ctx.Done():
			b.t.Fatalf("%s; the page is %s", problem, b.text())
		case <-tick.C:
		}
		if between == nil {
			continue
		}
		if err := chromedp.Do(ctx, between); err != nil && ctx.Err() == nil {
			b.t.Fatalf("%s: %v", problem, err)
		}
	}
}

// fill replaces the text of the control that has the given name.
func (b *tab) fill(name, text string) {
	b.t.Helper()
	control := chromedp.CSS(fmt.Sprintf(`[name=%q]:not([type=hidden])`, name))
	b.until("there is no control "+name, fmt.Sprintf(`document.readyState == "complete" && (() => {
		const control = document.querySelector(%q);
		if (control) control.value = "";
		return Boolean(control);
	})()`, control))
	b.do("filling "+name, chromedp.SendKeys(control, text))
}

// enter presses Enter in the field with an id.
func (b *tab) enter(id string) {
	b.t.Helper()
	b.do("pressing Enter in "+id, chromedp.SendKeys(chromedp.ID(id), "\r"))
}

// press clicks the first visible button, link or summary that contains a text.
func (b *tab) press(text string) {
	b.t.Helper()
	b.until("there is no button or link "+text, fmt.Sprintf(`document.readyState == "complete" && (() => {
		for (const old of document.querySelectorAll("[data-pressed]")) delete old.dataset.pressed;
		const found = [...document.querySelectorAll("button, a, summary")].find((e) => e.checkVisibility() && e.innerText.includes(%q));
		if (found) found.dataset.pressed = "";
		return Boolean(found);
	})()`, text))
	b.do("pressing "+text, chromedp.Click(chromedp.CSS("[data-pressed]")))
}

// authenticator adds a virtual authenticator that stores passkeys and verifies the user.
func (b *tab) authenticator() {
	b.t.Helper()
	if _, err := chromedp.Call(b.ctx, webauthn.Enable, webauthn.EnableParams{}); err != nil {
		b.t.Fatal(err)
	}
	if _, err := chromedp.Call(b.ctx, webauthn.AddVirtualAuthenticator, webauthn.AddVirtualAuthenticatorParams{Options: &webauthn.VirtualAuthenticatorOptions{
		Protocol: webauthn.AuthenticatorProtocolCtap2, Transport: webauthn.AuthenticatorTransportInternal,
		HasResidentKey: true, HasUserVerification: true, IsUserVerified: true, AutomaticPresenceSimulation: true,
	}}); err != nil {
		b.t.Fatal(err)
	}
}
