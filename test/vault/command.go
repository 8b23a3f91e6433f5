package vault

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"slices"
	"strings"
)

// Permissions are all permissions whose names begin with certificate-vault.
var Permissions = []string{
	"certificate-vault:list", "certificate-vault:view", "certificate-vault:create", "certificate-vault:download",
	"certificate-vault:update", "certificate-vault:revoke",
}

// Result is the result of a command.
type Result struct {
	Stdout, Stderr string
	Code           int
}

// command returns a command that runs the binary with the data folder and the database of o. The command
// does not get the caller's environment variables that configure the binary. tracer may be nil (see
// Options.Tracer).
func command(ctx context.Context, o Options, tracer []string, args ...string) (*exec.Cmd, error) {
	binary := o.Binary
	if binary == "" {
		var err error
		if binary, err = Binary(); err != nil {
			return nil, err
		}
	}
	args = slices.Concat(tracer, []string{binary}, args)
	cmd := exec.CommandContext(ctx, args[0], args[1:]...) //nolint:gosec // the binary under test
	for _, e := range os.Environ() {
		if !strings.HasPrefix(e, "CERTVAULT_") {
			cmd.Env = append(cmd.Env, e)
		}
	}
	if o.Data != "" {
		cmd.Env = append(cmd.Env, "CERTVAULT_DATA="+o.Data)
	}
	if o.Database != "" {
		cmd.Env = append(cmd.Env, "CERTVAULT_DATABASE="+o.Database)
	}
	cmd.Env = append(cmd.Env, o.Env...)
	return cmd, nil
}

// CanTrace returns an error if the system does not allow strace to trace a process, as in some
// containers, or if strace is missing.
func CanTrace(ctx context.Context) error {
	if out, err := exec.CommandContext(ctx, "strace", "-o", "/dev/null", "true").CombinedOutput(); err != nil {
		return fmt.Errorf("strace: %w: %s", err, out)
	}
	return nil
}

// Run runs a command of the binary with the data folder and the database of o. An exit code other than 0 is
// not an error.
func Run(ctx context.Context, o Options, stdin string, args ...string) (Result, error) {
	cmd, err := command(ctx, o, nil, args...)
	if err != nil {
		return Result{}, err
	}
	var stdout, stderr bytes.Buffer
	cmd.Stdin, cmd.Stdout, cmd.Stderr = strings.NewReader(stdin), &stdout, &stderr
	err = cmd.Run()
	if _, exited := errors.AsType[*exec.ExitError](err); err != nil && !exited {
		return Result{}, fmt.Errorf("running certvault %s: %w", args[0], err)
	}
	return Result{Stdout: stdout.String(), Stderr: stderr.String(), Code: cmd.ProcessState.ExitCode()}, nil
}

// runJSON runs a command with --json and decodes the output. An exit code other than 0 is an error.
func runJSON(ctx context.Context, o Options, into any, stdin string, args ...string) error {
	res, err := Run(ctx, o, stdin, append(args, "--json")...)
	if err != nil {
		return err
	}
	if res.Code != 0 {
		return fmt.Errorf("certvault %s %s exited with %d: %s", args[0], args[1], res.Code, res.Stderr)
	}
	if err := json.Unmarshal([]byte(res.Stdout), into); err != nil {
		return fmt.Errorf("reading the output of certvault %s %s: %w", args[0], args[1], err)
	}
	return nil
}

// Institution is the output of the command institution create.
type Institution struct {
	ID     int64  `json:"id"`
	UUID   string `json:"uuid"`
	Slug   string `json:"slug"`
	Prefix string `json:"prefix"`
}

// CreateInstitution creates an institution with an owner, whose password is OwnerPassword. The
// owner's address is derived from the prefix.
func (v *Vault) CreateInstitution(ctx context.Context, name, prefix string) (*Institution, error) {
	i := &Institution{}
	return i, runJSON(ctx, v.Options, i, OwnerPassword+"\n", "institution", "create", "--name", name, "--prefix", prefix,
		"--owner-email", "owner@"+strings.ToLower(prefix)+".example", "--owner-name", "Owner", "--owner-password-stdin")
}

// CreateToken creates a token. expires is the value of --expires, or "" for a token that does not expire.
func (v *Vault) CreateToken(ctx context.Context, slug, expires string, permissions ...string) (string, error) {
	args := []string{"token", "create", "--institution", slug, "--name", "Test"}
	for _, p := range permissions {
		args = append(args, "--permission", p)
	}
	if expires != "" {
		args = append(args, "--expires", expires)
	}
	var made struct {
		Token string `json:"token"`
	}
	err := runJSON(ctx, v.Options, &made, "", args...)
	return made.Token, err
}

// Webhook is the output of the command webhook create.
type Webhook struct {
	ID     string `json:"id"`
	Secret string `json:"secret"`
}

// CreateWebhook creates a webhook endpoint for the given events, or for all events if no event is
// given.
func (v *Vault) CreateWebhook(ctx context.Context, slug, url string, events ...string) (*Webhook, error) {
	args := []string{"webhook", "create", "--institution", slug, "--url", url}
	for _, e := range events {
		args = append(args, "--event", e)
	}
	h := &Webhook{}
	return h, runJSON(ctx, v.Options, h, "", args...)
}
