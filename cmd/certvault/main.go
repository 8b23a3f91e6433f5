// Command certvault runs the server of a certificate vault, administers a vault, and uploads and verifies
// certificates.
package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/signal"
	"path/filepath"
	"slices"
	"strings"
	"syscall"

	"github.com/alecthomas/kong"

	"github.com/certvault/certvault/internal/account"
	"github.com/certvault/certvault/internal/app"
	"github.com/certvault/certvault/internal/config"
	"github.com/certvault/certvault/internal/db"
	"github.com/certvault/certvault/internal/fault"
)

// The exit codes of all commands except verify, which uses the same numbers with other meanings.
const (
	exitDone    = 0
	exitRefused = 1
	exitUsage   = 2
)

// commands defines the commands and the flags.
type commands struct {
	Config kong.ConfigFlag `help:"Configuration file in TOML; the keys are the names of the flags." placeholder:"FILE" short:"c"`
	JSON   bool            `help:"Print the result as JSON." name:"json"`

	Serve       serveCommand       `cmd:"" help:"Start the vault."`
	Institution institutionCommand `cmd:"" help:"Manage institutions."`
	Member      memberCommand      `cmd:"" help:"Manage the members of an institution."`
	Operator    operatorCommand    `cmd:"" help:"Manage the operators of the installation."`
	Audit       auditCommand       `cmd:"" help:"Export the audit log."`
	User        userCommand        `cmd:"" help:"Manage passwords, sessions and e-mail addresses of people."`
	Token       tokenCommand       `cmd:"" help:"Manage API tokens."`
	Webhook     webhookCommand     `cmd:"" help:"Manage webhook endpoints."`
	Key         keyCommand         `cmd:"" help:"Manage signing keys."`
	Credential  credentialCommand  `cmd:"" help:"Revoke a credential whose certificate is missing after a restore."`
	Verify      verifyCommand      `cmd:"" help:"Check a verified PDF offline, or a credential. Exit code: 0 valid, 1 not valid, 2 unknown."`
	Upload      uploadCommand      `cmd:"" help:"Upload one certificate through the API."`
	Bulk        bulkCommand        `cmd:"" help:"Upload a list of certificates through the API."`
	Template    templateCommand    `cmd:"" help:"Manage templates, and issue certificates from them."`
	Offer       offerCommand       `cmd:"" help:"Manage offers that people can apply for."`
	Erase       eraseCommand       `cmd:"" help:"Immediately delete a failed certificate and its record, or the files of a revoked certificate."`
	Blob        blobCommand        `cmd:"" help:"Copy the stored files."`
	Show        configCommand      `cmd:"" help:"Print each setting of serve, and where its value comes from." name:"config"`
	Doctor      doctorCommand      `cmd:"" help:"Check the installation and report problems."`
	Compact     compactCommand     `cmd:"" help:"Return the free space in the file of a SQLite database to the disk. The server must be stopped."`
	Backup      backupCommand      `cmd:"" help:"Create and check backups."`
	Restore     restoreCommand     `cmd:"" help:"Create a vault from a backup, accept a restored vault, or show its last restore."`
	Mail        mailCommand        `cmd:"" help:"Show the state of mail."`
	Node        nodeCommand        `cmd:"" help:"Show the servers of the vault."`
	SetupLink   setupLinkCommand   `cmd:"" help:"Print a new one-time set-up link for a vault without an owner." name:"setup-link"`
	Migrate     migrateCommand     `cmd:"" help:"Migrate the database to the schema of this version."`
	Warm        warmCommand        `cmd:"" help:"Compile the PDF renderer into a folder for --cache, when you build an image or a package."`
	Man         manCommand         `cmd:"" help:"Print the manual page." hidden:""`
	Completion  completionCommand  `cmd:"" help:"Print a script that completes commands in a shell."`
	Complete    completeCommand    `cmd:"" hidden:""`
	Version     versionCommand     `cmd:"" help:"Print the version."`
}

// console is the input and output of a command.
type console struct {
	ctx    context.Context //nolint:containedctx // the context is valid until the command ends
	stdin  io.Reader
	stdout io.Writer
	stderr io.Writer
	json   bool
}

// print prints value as JSON if --json is set. Otherwise it calls text.
func (c *console) print(value any, text func(w io.Writer)) error {
	if !c.json {
		text(c.stdout)
		return nil
	}
	enc := json.NewEncoder(jsonLines{c.stdout})
	enc.SetEscapeHTML(false)
	if err := enc.Encode(value); err != nil {
		return fmt.Errorf("writing the result: %w", err)
	}
	return nil
}

// vault opens the storage, creates it if needed, and calls f.
func (c *console) vault(s config.Storage, f func(base *app.Base) error) error {
	return c.with(s, app.CreateBase, f)
}

// existing opens the storage of an existing vault and calls f.
func (c *console) existing(s config.Storage, f func(base *app.Base) error) error {
	if err := requireVault(s); err != nil {
		return err
	}
	return c.with(s, app.OpenBase, f)
}

// requireVault returns an error if the vault uses SQLite and the data folder has no database.
// Without this check, a command with a misspelt folder could create an empty vault.
func requireVault(s config.Storage) error {
	if s.Database != "" {
		return nil
	}
	if _, err := os.Stat(filepath.Join(s.Data, db.FileName)); err != nil {
		return fmt.Errorf("the folder %s contains no vault: %w; set --data to the data folder of the vault", s.Data, err)
	}
	return nil
}

func (c *console) with(s config.Storage, open func(context.Context, config.Storage, string) (*app.Base, error), f func(base *app.Base) error) (err error) {
	base, err := open(c.ctx, s, "")
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, base.DB.Close()) }()
	return f(base)
}

// institution opens the storage, finds the institution with a slug and calls f.
func (c *console) institution(s config.Storage, slug string, f func(base *app.Base, inst *account.Institution) error) error {
	return c.existing(s, func(base *app.Base) error {
		inst, err := base.Accounts.InstitutionBySlug(c.ctx, slug)
		if err != nil {
			return err
		}
		return f(base, inst)
	})
}

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	code := run(ctx, os.Args[1:], os.Stdin, os.Stdout, os.Stderr)
	stop()
	os.Exit(code)
}

func run(ctx context.Context, args []string, stdin io.Reader, stdout, stderr io.Writer) int {
	c := grammar(args)
	exited := -1
	parser, err := kong.New(c.Interface(),
		kong.Name("certvault"),
		kong.Description("A certificate vault: signed PDF certificates that anyone can verify.\n\n"+
			"To begin, run certvault serve and open the link that it prints."),
		kong.UsageOnError(),
		kong.DefaultEnvars("CERTVAULT"),
		kong.Configuration(config.Load),
		kong.ConfigureHelp(kong.HelpOptions{Compact: true}),
		kong.Writers(stdout, stderr),
		kong.Exit(func(code int) { exited = code }),
	)
	if err != nil {
		printError(stderr, err)
		return exitUsage
	}
	parser.Model.HelpFlag.Help = "Show this help."
	switch {
	case len(args) == 0:
		args = []string{"--help"}
	case args[0] == "help": // the parser has only the flag --help
		args = append(args[1:len(args):len(args)], "--help")
	}
	parsed, err := parser.Parse(args)
	if exited >= 0 {
		return exited
	}
	if err != nil {
		printError(stderr, err)
		printf(stderr, "See certvault --help.\n")
		return exitUsage
	}
	err = parsed.Run(&console{ctx: asCommand(ctx), stdin: stdin, stdout: stdout, stderr: stderr, json: c.Elem().FieldByName("JSON").Bool()})
	if usage, ok := errors.AsType[*usageError](err); ok {
		printError(stderr, usage, parsed.Flags()...)
		return exitUsage
	}
	if exit, ok := errors.AsType[*exitError](err); ok {
		if exit.err != nil {
			printError(stderr, exit.err)
		}
		return exit.code
	}
	if err != nil {
		printError(stderr, err, parsed.Flags()...)
		return exitRefused
	}
	return exitDone
}

// usageError is an error in the arguments that the parser does not detect.
type usageError struct{ err error }

func (u *usageError) Error() string { return u.err.Error() }
func (u *usageError) Unwrap() error { return u.err }

// printError prints an error. If the input is invalid, it prints one line per field, with the flag that
// sets the field.
func printError(stderr io.Writer, err error, flags ...*kong.Flag) {
	e, ok := errors.AsType[*fault.Error](err)
	if !ok || len(e.Fields) == 0 {
		if ok && e.Kind != fault.Internal {
			err = errors.New(e.Message)
		}
		_, _ = fmt.Fprintf(stderr, "certvault: %s\n", plainLines(err.Error()))
		return
	}
	for _, f := range e.Fields {
		printf(stderr, "certvault: %s: %s\n", flagOf(f.Name, flags), strings.Join(f.Messages, " "))
	}
}

// flagOf returns the flag that sets a field, or the name of the field if there is none. The flag of a
// value that is read from standard input, such as a password, ends in -stdin. The flag of a list is in
// the singular.
func flagOf(field string, flags []*kong.Flag) string {
	name := strings.ReplaceAll(field, "_", "-")
	for _, f := range flags {
		if f.Name == name || f.Name+"s" == name || f.Name == name+"-stdin" || slices.Contains(f.Aliases, name) {
			return "--" + f.Name
		}
	}
	return strings.ReplaceAll(field, "_", " ")
}
