// Command quality checks the pages of the built vault in a browser. It starts a
// vault with a certificate in every state and runs the checkers in package.json.
//
//	go run ./test/quality pages         accessibility and markup, on every page and state
//	go run ./test/quality pages-quick   the same, with fewer variants of pages that need a session
//	go run ./test/quality behaviour     interaction: files, camera, keyboard
//	go run ./test/quality scores        Lighthouse, medians of three, and sizes
//	go run ./test/quality scores-quick  only Lighthouse's accessibility
//	go run ./test/quality screenshots   every page and state, to test/screenshots
//	go run ./test/quality pictures      the pictures of the README, to docs/images
//	go run ./test/quality serve         only the vault, until it is interrupted
//
// Several of them use the same vault, one after the other.
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
		return errors.New("usage: quality pages, pages-quick, behaviour, scores, scores-quick, screenshots, pictures or serve")
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
	plan, err := json.MarshalIndent(f, "", "  ")
	if err != nil {
		return fmt.Errorf("writing the list of pages: %w", err)
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
	// Every check runs, even if an earlier one fails.
	for _, what := range args {
		fmt.Println("quality:", what)
		if e := judge(ctx, root, what, file); e != nil {
			err = errors.Join(err, fmt.Errorf("%s: %w", what, e))
		}
	}
	return err
}

func judge(ctx context.Context, root, what, file string) error {
	cmd := exec.CommandContext(ctx, "node", "judge.mjs", what, file) //nolint:gosec // what the person at the keyboard asked for
	cmd.Dir = filepath.Join(root, "test", "quality")
	cmd.Stdout, cmd.Stderr = os.Stdout, os.Stderr
	cmd.Cancel = func() error { return cmd.Process.Signal(syscall.SIGTERM) }
	return cmd.Run()
}
