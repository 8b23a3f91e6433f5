// Command skew builds a binary of the vault whose wall clock tests can change while it runs: SIGUSR1 moves
// the clock 20 s ahead, and SIGUSR2 moves it 20 s back. Only time.Now and the handler of these signals
// differ from a released binary. libfaketime does not affect Go programs, because they read the clock
// without the C library, and Linux has no namespace for the wall clock.
//
//	go run ./test/skew FILE [FLAGS OF go build]
//
// The signals change neither the monotonic clock nor the times of files, which the kernel sets.
package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
)

// command is the package of the binary.
const command = "cmd/certvault"

// signals is the source of a file that is added to the package of the binary.
const signals = `package main

import (
	"fmt"
	"os"
	"os/signal"
	"syscall"
	"time"
)

func init() {
	c := make(chan os.Signal, 8)
	signal.Notify(c, syscall.SIGUSR1, syscall.SIGUSR2)
	go func() {
		for s := range c {
			if s == syscall.SIGUSR1 {
				time.Skew.Add(20)
			} else {
				time.Skew.Add(-20)
			}
			fmt.Fprintln(os.Stderr, "the clock was changed and is wrong by", time.Skew.Load(), "s")
		}
	}()
}
`

func main() {
	if err := run(os.Args[1:]); err != nil {
		fmt.Fprintln(os.Stderr, "skew:", err)
		os.Exit(1)
	}
}

func run(args []string) (err error) {
	if len(args) == 0 {
		return errors.New("the name of the file is missing")
	}
	root, err := exec.Command("go", "env", "GOROOT").Output() //nolint:noctx // it takes milliseconds
	if err != nil {
		return fmt.Errorf("finding the source of Go: %w", err)
	}
	original := filepath.Join(strings.TrimSpace(string(root)), "src", "time", "time.go")
	text, err := os.ReadFile(original)
	if err != nil {
		return fmt.Errorf("reading the source of Go: %w", err)
	}
	changed, err := skewed(string(text))
	if err != nil {
		return fmt.Errorf("%s: %w", original, err)
	}
	dir, err := os.MkdirTemp("", "skew-")
	if err != nil {
		return fmt.Errorf("creating a folder: %w", err)
	}
	defer func() { err = errors.Join(err, os.RemoveAll(dir)) }()
	added, err := filepath.Abs(filepath.Join(command, "skew.go"))
	if err != nil {
		return fmt.Errorf("finding the package: %w", err)
	}
	replace := map[string]string{original: filepath.Join(dir, "time.go"), added: filepath.Join(dir, "skew.go")}
	overlay, err := json.Marshal(map[string]any{"Replace": replace})
	if err != nil {
		return fmt.Errorf("encoding the overlay: %w", err)
	}
	for name, content := range map[string]string{"time.go": changed, "skew.go": signals, "overlay.json": string(overlay)} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(content), 0o600); err != nil {
			return fmt.Errorf("writing the overlay: %w", err)
		}
	}
	//nolint:gosec,noctx // the arguments are the developer's
	build := exec.Command("go", slices.Concat([]string{"build", "-overlay", filepath.Join(dir, "overlay.json"), "-o", args[0]}, args[1:], []string{"./" + command})...)
	build.Stdout, build.Stderr = os.Stdout, os.Stderr
	if err := build.Run(); err != nil {
		return fmt.Errorf("building: %w", err)
	}
	return nil
}

// skewed adds the variable Skew to the source of package time, and changes Now to add Skew to the wall
// clock.
func skewed(source string) (string, error) {
	for _, change := range []struct{ old, replacement string }{
		{"func Now() Time {\n\tsec, nsec, mono := runtimeNow()\n", "func Now() Time {\n\tsec, nsec, mono := runtimeNow()\n\tsec += Skew.Load()\n"},
		{"import (\n\t\"errors\"\n", "import (\n\t\"errors\"\n\t\"sync/atomic\"\n"},
	} {
		if strings.Count(source, change.old) != 1 {
			return "", fmt.Errorf("this version of Go is not known: the source does not contain %q exactly once", change.old)
		}
		source = strings.Replace(source, change.old, change.replacement, 1)
	}
	return source + "\n// Skew is the number of seconds by which the clock is ahead.\nvar Skew atomic.Int64\n", nil
}
