package app

import (
	"context"
	"crypto/rand"
	"errors"
	"net/url"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgproto3"

	"github.com/certvault/certvault/internal/db"
	"github.com/certvault/certvault/internal/db/dbtest"
)

// TestDoctorExaminesStandbys checks the findings about standbys for which commits do not wait.
func TestDoctorExaminesStandbys(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		standbys
		read, warns bool
		want        string
	}{
		"none":                          {standbys{}, true, false, "commits wait for the disk"},
		"an asynchronous one":           {standbys{1, 0, 0}, false, true, "can lose certificates"},
		"perhaps the read replica":      {standbys{1, 0, 0}, true, false, "can lose certificates"},
		"another than the read replica": {standbys{2, 0, 0}, true, true, "any of the standbys (2)"},
		"a synchronous one of two":      {standbys{2, 1, 0}, false, false, "and for a standby"},
		"one that is not visible":       {standbys{0, 0, 1}, false, false, "only a role with pg_monitor"},
	} {
		detail, err := c.examine(c.read)
		_, warns := errors.AsType[warning](err)
		if err != nil {
			detail = err.Error()
		}
		if warns != c.warns || !strings.Contains(detail, c.want) {
			t.Errorf("%s: finding = %q, warning = %v, want %q, %v", name, detail, warns, c.want, c.warns)
		}
	}
}

// TestStandbysOfTheServer checks that readStandbys counts an asynchronous standby, and for an account without
// pg_monitor a hidden one. The test receives the log like a standby.
func TestStandbysOfTheServer(t *testing.T) {
	t.Parallel()
	address := dbtest.PostgresURL(t)
	d := dbtest.Open(t, "", address)
	before, err := readStandbys(t.Context(), d)
	if err != nil {
		t.Fatal(err)
	}
	follow(t, address)
	// Other tests may start or stop standbys.
	var s standbys
	for deadline := time.Now().Add(20 * time.Second); s.streaming <= before.streaming && time.Now().Before(deadline); time.Sleep(50 * time.Millisecond) {
		if s, err = readStandbys(t.Context(), d); err != nil {
			t.Fatal(err)
		}
	}
	if s.streaming == 0 || s.synchronous != 0 || s.hidden != 0 {
		t.Errorf("standbys = %+v, want asynchronous ones", s)
	}

	role := "cv_" + strings.ToLower(rand.Text())
	for _, statement := range []string{`CREATE ROLE ` + role, `GRANT ` + role + ` TO current_user`} {
		if _, err := d.Writer().ExecContext(t.Context(), statement); err != nil {
			t.Fatal(err)
		}
	}
	t.Cleanup(func() {
		if _, err := d.Writer().ExecContext(context.WithoutCancel(t.Context()), `DROP ROLE `+role); err != nil {
			t.Error(err)
		}
	})
	u, err := url.Parse(address)
	if err != nil {
		t.Fatal(err)
	}
	query := u.Query()
	query.Set("role", role)
	u.RawQuery = query.Encode()
	limited, err := db.Open(t.Context(), "", u.String())
	if err != nil {
		t.Fatal(err)
	}
	if s, err := readStandbys(t.Context(), limited); err != nil || s.streaming != 0 || s.hidden == 0 {
		t.Errorf("without pg_monitor: standbys = %+v, %v, want hidden ones", s, err)
	}
	if err := limited.Close(); err != nil {
		t.Error(err)
	}
}

// follow receives the log of a server like a standby, until the test ends.
func follow(t *testing.T, address string) {
	t.Helper()
	cfg, err := pgconn.ParseConfig(address)
	if err != nil {
		t.Fatal(err)
	}
	cfg.RuntimeParams["replication"] = "true"
	conn, err := pgconn.ConnectConfig(t.Context(), cfg)
	if err != nil {
		t.Fatal(err)
	}
	closed := make(chan struct{})
	t.Cleanup(func() {
		_ = conn.Conn().Close()
		<-closed
	})
	results, err := conn.Exec(t.Context(), `IDENTIFY_SYSTEM`).ReadAll()
	if err != nil {
		t.Fatal(err)
	}
	position := string(results[0].Rows[0][2])
	conn.Frontend().Send(&pgproto3.Query{String: `START_REPLICATION PHYSICAL ` + position})
	if err := conn.Frontend().Flush(); err != nil {
		t.Fatal(err)
	}
	go func() {
		defer close(closed)
		for {
			if _, err := conn.Frontend().Receive(); err != nil {
				return
			}
		}
	}()
}
