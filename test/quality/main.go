// Command quality starts three vaults with test data (see fixture), and checks their pages in a browser
// with the tools in package.json.
//
//	go run ./test/quality pages         accessibility and markup of all pages
//	go run ./test/quality pages-quick   the same in fewer combinations of language, colour scheme and width
//	go run ./test/quality behaviour     actions on the pages, such as uploads and the use of the keyboard
//	go run ./test/quality scores        Lighthouse scores (medians of three runs), bytes and requests of pages
//	go run ./test/quality screenshots   pictures of all pages, to test/screenshots
//	go run ./test/quality pictures      the pictures of the README and of the help, to docs
//	go run ./test/quality serve         no check; prints the list of pages and waits for SIGINT or SIGTERM
//
// Several checks can be named. They run one after the other with the same vaults.
package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"syscall"

	"github.com/certvault/certvault/test/vault"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	err := run(ctx, os.Args[1:])
	stop()
	if err != nil {
		fmt.Fprintln(os.Stderr, "quality:", err)
		os.Exit(1)
	}
}

func run(ctx context.Context, args []string) (err error) {
	if len(args) == 0 {
		return errors.New("usage: quality pages, pages-quick, behaviour, scores, screenshots, pictures or serve")
	}
	root, err := vault.Root()
	if err != nil {
		return err
	}
	f, err := newFixture(ctx)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, f.close()) }()
	names := map[string]bool{}
	for i := range f.Pages {
		name := f.Pages[i].Name
		if names[name] {
			return fmt.Errorf("two pages have the name %s, and the markup of only one would be checked", name)
		}
		names[name] = true
	}
	plan, err := json.MarshalIndent(f, "", "  ")
	if err != nil {
		return fmt.Errorf("encoding the list of pages: %w", err)
	}
	if args[0] == "serve" {
		fmt.Println(string(plan))
		<-ctx.Done()
		return nil
	}
	file := filepath.Join(f.dir, "pages.json")
	if err := os.WriteFile(file, plan, 0o600); err != nil {
		return fmt.Errorf("writing the list of pages: %w", err)
	}
	// After a check has failed, the remaining checks still run.
	for _, what := range args {
		fmt.Println("quality:", what)
		if e := runCheck(ctx, root, what, file); e != nil {
			err = errors.Join(err, fmt.Errorf("%s: %w", what, e))
		}
	}
	return err
}

func runCheck(ctx context.Context, root, what, file string) error {
	cmd := exec.CommandContext(ctx, "node", "check.mjs", what, file) //nolint:gosec // the arguments come from the developer
	cmd.Dir = filepath.Join(root, "test", "quality")
	cmd.Stdout, cmd.Stderr = os.Stdout, os.Stderr
	cmd.Cancel = func() error { return cmd.Process.Signal(syscall.SIGTERM) }
	return cmd.Run()
}
