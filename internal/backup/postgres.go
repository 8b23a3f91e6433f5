package backup

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"net/url"
	"os"
	"os/exec"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"time"

	"github.com/certvault/certvault/internal/db"
)

const (
	// killTime is the time from SIGTERM until a program of PostgreSQL is killed.
	killTime = 5 * time.Second
	// maxMessage is the maximum length of the messages of a program in an error, in bytes.
	maxMessage = 1000
	// maxKeyPassword is the maximum length of the password of a client key, in bytes. libpq reads lines of at
	// most 1,023 bytes.
	maxKeyPassword = 1000
)

// dump writes a dump of the state of a snapshot to a file.
func dump(ctx context.Context, databaseURL string, s *db.Snapshot, file string) error {
	version, err := programVersion(ctx, "pg_dump")
	if errors.Is(err, exec.ErrNotFound) {
		return fmt.Errorf("pg_dump is not installed; install the client programs of PostgreSQL %[1]d (package postgresql-client-%[1]d), "+
			"or use --files-only and back up the database by other means", s.Server)
	}
	if err != nil {
		return err
	}
	if version < s.Server {
		return fmt.Errorf("pg_dump has version %d, which cannot read a server of version %[2]d; install the client programs of PostgreSQL %[2]d "+
			"(package postgresql-client-%[2]d), or use --files-only and back up the database by other means", version, s.Server)
	}
	// Level 1 of the compression takes a third of the time of the default level.
	return runProgram(ctx, databaseURL, "pg_dump", "--format=custom", "--compress=1", "--snapshot="+s.ID, "--file="+file)
}

// errNoRestoreProgram means that a dump cannot be checked, because pg_restore is not installed.
var errNoRestoreProgram = errors.New("pg_restore is not installed; install the client programs of PostgreSQL (package postgresql-client)")

// listDump checks that pg_restore can read the table of contents of a dump. The error is
// errNoRestoreProgram if pg_restore is not installed.
func listDump(ctx context.Context, file string) error {
	if _, err := exec.LookPath("pg_restore"); err != nil {
		return errNoRestoreProgram
	}
	return runProgram(ctx, "", "pg_restore", "--list", file)
}

// versionNumber matches the major version in the output of a program of PostgreSQL.
var versionNumber = regexp.MustCompile(`\(PostgreSQL\) (\d+)`)

// programVersion returns the major version of a program of PostgreSQL. The error is
// [exec.ErrNotFound] if the program is not installed.
func programVersion(ctx context.Context, name string) (int, error) {
	out, err := exec.CommandContext(ctx, name, "--version").Output()
	if err != nil {
		return 0, fmt.Errorf("reading the version of %s: %w", name, err)
	}
	m := versionNumber.FindSubmatch(out)
	if m == nil {
		return 0, fmt.Errorf("reading the version of %s: the output is %q", name, out)
	}
	return strconv.Atoi(string(m[1]))
}

// runProgram runs a program of PostgreSQL. If the URL is not empty, the program uses that database.
// The passwords of the URL are not passed as arguments, because other users can see the arguments.
// An error contains the end of the messages of the program.
func runProgram(ctx context.Context, databaseURL, name string, args ...string) (err error) {
	env := os.Environ()
	if databaseURL != "" {
		target, passwords, e := programURL(databaseURL)
		if e != nil {
			return e
		}
		args = append(args, "--no-password", "--dbname="+target)
		if passwords.user != "" {
			env = append(env, "PGPASSWORD="+passwords.user)
		}
		if passwords.key != "" {
			file, e := writeService(passwords.key)
			if e != nil {
				return e
			}
			defer func() { err = errors.Join(err, os.Remove(file)) }()
			env = append(env, "PGSERVICEFILE="+file)
		}
	}
	c := exec.CommandContext(ctx, name, args...) //nolint:gosec // the callers pass constant names
	var messages bytes.Buffer
	c.Env, c.Stderr = env, &messages
	c.Cancel = func() error { return c.Process.Signal(syscall.SIGTERM) }
	c.WaitDelay = killTime
	err = c.Run()
	if err == nil {
		return nil
	}
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	text := strings.TrimSpace(messages.String())
	if strings.Contains(strings.ToLower(text), syscall.ENOSPC.Error()) {
		err = errors.Join(syscall.ENOSPC, err)
	}
	return fmt.Errorf("%s failed: %s: %w", name, text[max(0, len(text)-maxMessage):], err)
}

// serviceName is the name of the connection service that has the password of a client key.
const serviceName = "certvault"

// writeService writes a connection service file with the password of a client key, for which libpq has no
// environment variable, and returns the name of the file. Only the vault's user can read the file.
func writeService(password string) (name string, err error) {
	// libpq ends a line at a line break, and removes the white space at its end.
	if strings.ContainsAny(password, "\r\n") || strings.TrimRight(password, " \t\v\f") != password || len(password) > maxKeyPassword {
		return "", fmt.Errorf("sslpassword of the database URL has a line break, white space at its end or more than %d bytes, "+
			"so the programs of PostgreSQL cannot read it; change the password of the client key", maxKeyPassword)
	}
	file, err := os.CreateTemp("", "certvault-service-*.conf")
	if err != nil {
		return "", fmt.Errorf("writing a connection service file: %w", err)
	}
	_, err = fmt.Fprintf(file, "[%s]\nsslpassword=%s\n", serviceName, password)
	if err = errors.Join(err, file.Close()); err != nil {
		return "", errors.Join(fmt.Errorf("writing a connection service file: %w", err), os.Remove(file.Name()))
	}
	return file.Name(), nil
}

// programParameters are the parameters of a database URL that are passed to the programs of PostgreSQL
// (documentation of libpq, "Parameter Key Words"), without the passwords. The vault's driver accepts more
// parameters, which the programs reject.
var programParameters = []string{
	"host", "hostaddr", "port", "dbname", "user", "passfile", "channel_binding", "connect_timeout", "options", "application_name",
	"keepalives", "keepalives_idle", "keepalives_interval", "keepalives_count", "tcp_user_timeout", "gssencmode", "sslmode", "sslcert", "sslkey",
	"sslrootcert", "sslcrl", "sslcrldir", "sslsni", "requirepeer", "ssl_min_protocol_version", "ssl_max_protocol_version", "krbsrvname",
	"service", "target_session_attrs",
}

// passwords are the passwords of a database URL: of the user, and of the client key (sslpassword).
type passwords struct{ user, key string }

// programURL returns a database URL for the programs of PostgreSQL, without the passwords, and the
// passwords. If the client key has a password, the URL refers to the service serviceName.
func programURL(databaseURL string) (target string, p passwords, err error) {
	u, err := url.Parse(databaseURL)
	if err != nil {
		// The parser's message contains the URL with its password.
		return "", p, errors.New("the database URL is invalid; see the PostgreSQL connection URI syntax")
	}
	if u.User != nil {
		p.user, _ = u.User.Password()
		u.User = url.User(u.User.Username())
	}
	query := u.Query()
	if text := query.Get("password"); text != "" {
		p.user = text
	}
	p.key = query.Get("sslpassword")
	for name := range query {
		if !slices.Contains(programParameters, name) {
			query.Del(name)
		}
	}
	if p.key != "" {
		if query.Has("service") {
			return "", p, errors.New("the database URL has sslpassword and service; move sslpassword to the connection service file")
		}
		query.Set("service", serviceName)
	}
	u.RawQuery = strings.ReplaceAll(query.Encode(), "+", "%20")
	return u.String(), p, nil
}
