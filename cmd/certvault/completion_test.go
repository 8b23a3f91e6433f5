package main

import (
	"os/exec"
	"slices"
	"strings"
	"testing"
)

// TestComplete checks the completions of the last word of a command line.
func TestComplete(t *testing.T) {
	t.Parallel()
	for _, tc := range []struct{ words, want []string }{
		{[]string{"tok"}, []string{"token"}},
		{[]string{"token", ""}, []string{"list", "create", "rotate", "revoke"}},
		{[]string{"serve", "--tls"}, []string{"--tls-cert", "--tls-key"}},
		{[]string{"serve", "--listen", "token", "--tls-c"}, []string{"--tls-cert"}},
		{[]string{"--config", "token", "nod"}, []string{"node"}},
		{[]string{"serve", "--log", "j"}, []string{"json"}},
		{[]string{"serve", "--log", ""}, []string{"text", "json"}},
		{[]string{"serve", "--data", ""}, nil},
		{[]string{"compl"}, []string{"completion"}}, // not the hidden command complete
		{[]string{"no-such-command", "--no-such-flag", "x"}, nil},
	} {
		code, out, _ := certvault(t, "", append([]string{"complete", "--"}, tc.words...)...)
		got := strings.Fields(out)
		slices.Sort(got)
		want := slices.Sorted(slices.Values(tc.want))
		if !slices.Equal(got, want) || (code == exitDone) != (len(want) > 0) {
			t.Errorf("completions of %q = %q with exit code %d, want %q", tc.words, got, code, want)
		}
	}
}

// TestCompletionScripts checks that the shells accept the scripts. It skips shells that are not installed.
func TestCompletionScripts(t *testing.T) {
	t.Parallel()
	for shell := range completions {
		code, script, _ := certvault(t, "", "completion", shell)
		if code != exitDone || !strings.Contains(script, "certvault complete --") {
			t.Errorf("completion %s = %q with exit code %d, want %d and a script that runs certvault complete", shell, script, code, exitDone)
		}
		if _, err := exec.LookPath(shell); err != nil {
			continue
		}
		cmd := exec.CommandContext(t.Context(), shell, "-n")
		cmd.Stdin = strings.NewReader(script)
		if out, err := cmd.CombinedOutput(); err != nil {
			t.Errorf("%s -n = %v, want no error: %s", shell, err, out)
		}
	}
}

// TestManualPage checks that the manual page contains commands and flags. No line of text may begin
// with a period, because troff would read the line as a request.
func TestManualPage(t *testing.T) {
	t.Parallel()
	code, page, _ := certvault(t, "", "man")
	if code != exitDone {
		t.Fatalf("exit code = %d, want %d", code, exitDone)
	}
	for _, part := range []string{".TH CERTVAULT 1", `certvault token create`, `\-\-base\-url`, `\-\-cache`, `\-\-[no\-]`} {
		if !strings.Contains(page, part) {
			t.Errorf("the manual page lacks %q", part)
		}
	}
	for line := range strings.Lines(page) {
		if strings.HasPrefix(line, ".") && !slices.Contains([]string{".TH", ".SH", ".SS", ".TP", ".B", ".I", ".PP"}, strings.Fields(line)[0]) {
			t.Errorf("the line %q begins with an unknown request", line)
		}
	}
	if _, err := exec.LookPath("groff"); err != nil {
		return
	}
	cmd := exec.CommandContext(t.Context(), "groff", "-ww", "-man", "-Tutf8", "-z")
	cmd.Stdin = strings.NewReader(page)
	if out, err := cmd.CombinedOutput(); err != nil || len(out) > 0 {
		t.Errorf("groff = %v, want no error and no output: %s", err, out)
	}
}

// TestRoff checks the escapes of the manual page.
func TestRoff(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]string{
		".hidden": `\&.hidden`, "'quoted'": `\&'quoted'`, `a\b`: `a\eb`, "--data": `\-\-data`, "two\nlines": "two lines",
	} {
		if got := roff(text); got != want {
			t.Errorf("roff(%q) = %q, want %q", text, got, want)
		}
	}
}
