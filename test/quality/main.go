// Command quality checks the pages of the built vault as a browser shows them, on a vault with a
// certificate in every state and with the tools in package.json.
//
//	go run ./test/quality pages         accessibility and markup, on every page and state
//	go run ./test/quality pages-quick   the same, with fewer variants for signed-in pages
//	go run ./test/quality behaviour     what people do on them: files, camera, keyboard
//	go run ./test/quality scores        Lighthouse, medians of three, and weights
//	go run ./test/quality scores-quick  Lighthouse's accessibility alone
//	go run ./test/quality screenshots   every page and state, to test/screenshots
//	go run ./test/quality pictures      the pictures of the README, to docs/images
//	go run ./test/quality serve         only the vault, until it is interrupted
//
// Several arguments run on the same vault, one after the other.
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
	// After a failure the remaining checks still run.
	for _, what := range args {
		fmt.Println("quality:", what)
		if e := runCheck(ctx, root, what, file); e != nil {
			err = errors.Join(err, fmt.Errorf("%s: %w", what, e))
		}
	}
	return err
}

func runCheck(ctx context.Context, root, what, file string) error {
	cmd := exec.CommandContext(ctx, "node", "judge.mjs", what, file) //nolint:gosec // the arguments come from the developer
	cmd.Dir = filepath.Join(root, "test", "quality")
	cmd.Stdout, cmd.Stderr = os.Stdout, os.Stderr
	cmd.Cancel = func() error { return cmd.Process.Signal(syscall.SIGTERM) }
	return cmd.Run()
}
