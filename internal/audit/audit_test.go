package audit_test

import (
	"bytes"
	"context"
	"encoding/csv"
	"encoding/json"
	"fmt"
	"net/netip"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/certvault/certvault/internal/audit"
	"github.com/certvault/certvault/internal/db"
	"github.com/certvault/certvault/internal/db/dbtest"
	"github.com/certvault/certvault/internal/fault"
)

var day = time.Date(2026, 3, 1, 9, 0, 0, 0, time.UTC)

// institution inserts an institution and returns its number.
func institution(t *testing.T, d *db.DB, name string) (id int64) {
	t.Helper()
	if err := d.Tx(t.Context(), func(tx *db.Tx) error {
		return tx.QueryRowContext(t.Context(), `INSERT INTO institutions (uuid, slug, name, prefix, created_at) VALUES ($1, $1, $1, $1, 0) RETURNING id`, name).Scan(&id)
	}); err != nil {
		t.Fatal(err)
	}
	return id
}

func record(t *testing.T, d *db.DB, ctx context.Context, e audit.Entry) { //nolint:revive // ctx is beside e because it contains the actor of e
	t.Helper()
	if err := d.Tx(ctx, func(tx *db.Tx) error { return audit.RecordTx(ctx, tx, e) }); err != nil {
		t.Fatal(err)
	}
}

func jane(ctx context.Context) context.Context {
	return audit.WithActor(ctx, audit.Actor{Type: audit.User, ID: "u-1", Name: "Jane DOE", Address: netip.MustParseAddr("2001:db8::1"), RequestID: "REQUEST1"})
}

func TestEntryRoundTrip(t *testing.T) {
	t.Parallel()
	dbtest.Each(t, func(t *testing.T, d *db.DB) {
		inst := institution(t, d, "AAA")
		record(t, d, jane(t.Context()), audit.Entry{
			InstitutionID: inst, At: day, Action: audit.CertificateRevoked, Subject: audit.Subject{Type: "certificate", ID: "c-1", Name: "AAA-1"},
			Detail: audit.Detail{"reason": "typo <b>", "n": 1},
		})
		record(t, d, t.Context(), audit.Entry{At: day, Action: audit.KeyProtected})
		list, next, err := audit.New(d).List(t.Context(), inst, audit.Filter{}, "", 10)
		if err != nil || len(list) != 1 || next != "" {
			t.Fatalf("List = %+v, %q, %v, want one entry", list, next, err)
		}
		e := list[0]
		if e.InstitutionID != inst || !e.At.Equal(day) || e.Actor.Type != audit.User || e.Actor.ID != "u-1" || e.Actor.Name != "Jane DOE" ||
			e.Actor.Address.String() != "2001:db8::1" || e.Actor.RequestID != "REQUEST1" || e.Action != audit.CertificateRevoked ||
			e.Subject != (audit.Subject{Type: "certificate", ID: "c-1", Name: "AAA-1"}) || e.Detail["reason"] != "typo <b>" {
			t.Errorf("entry = %+v, want the recorded entry with the actor Jane DOE", e)
		}
		list, _, err = audit.New(d).List(t.Context(), 0, audit.Filter{}, "", 10)
		if err != nil || len(list) != 1 || list[0].Action != audit.KeyProtected || list[0].Actor.Type != audit.System || list[0].Actor.Address.IsValid() {
			t.Errorf("the installation's log = %+v, %v, want only key.protected by the system", list, err)
		}
	})
}

// TestEntryRollsBackWithItsAction checks that an entry is not stored if its transaction is rolled
// back, and that an entry with an unknown action is refused.
func TestEntryRollsBackWithItsAction(t *testing.T) {
	t.Parallel()
	dbtest.Each(t, func(t *testing.T, d *db.DB) {
		inst := institution(t, d, "AAA")
		_ = d.Tx(t.Context(), func(tx *db.Tx) error {
			if err := audit.RecordTx(t.Context(), tx, audit.Entry{InstitutionID: inst, Action: audit.TokenCreated}); err != nil {
				t.Error(err)
			}
			return fault.New(fault.Invalid, "invalid")
		})
		if list, _, err := audit.New(d).List(t.Context(), inst, audit.Filter{}, "", 10); err != nil || len(list) != 0 {
			t.Errorf("List = %+v, %v, want none after the rollback", list, err)
		}
		if err := d.Tx(t.Context(), func(tx *db.Tx) error {
			return audit.RecordTx(t.Context(), tx, audit.Entry{InstitutionID: inst, Action: "token.unknown"})
		}); err == nil {
			t.Error("RecordTx accepts an unknown action, want an error")
		}
	})
}

// TestEntriesAreImmutable checks that the database rejects statements that change or delete entries.
func TestEntriesAreImmutable(t *testing.T) {
	t.Parallel()
	dbtest.Each(t, func(t *testing.T, d *db.DB) {
		inst := institution(t, d, "AAA")
		record(t, d, t.Context(), audit.Entry{InstitutionID: inst, At: day, Action: audit.TokenCreated})
		statements := []string{
			`UPDATE audit_entries SET actor_name = 'other'`,
			`UPDATE audit_entries SET at = 7 WHERE id = (SELECT min(id) FROM audit_entries)`,
			`DELETE FROM audit_entries`,
			`DELETE FROM audit_entries WHERE id = (SELECT min(id) FROM audit_entries)`,
		}
		columns := `(id, at, actor_type, actor_id, actor_name, actor_folded, action, subject_type, subject_id, subject_name, subject_folded, detail, address, request_id)`
		values := `SELECT id, 0, '', '', '', '', '', '', '', '', '', '{}', '', '' FROM audit_entries`
		if d.Dialect == db.SQLite {
			statements = append(statements, `INSERT OR REPLACE INTO audit_entries `+columns+` `+values,
				`INSERT INTO audit_entries `+columns+` `+values+` WHERE true ON CONFLICT (id) DO UPDATE SET action = excluded.action`)
		} else {
			statements = append(statements, `TRUNCATE audit_entries`, `TRUNCATE institutions CASCADE`,
				`INSERT INTO audit_entries `+columns+` OVERRIDING SYSTEM VALUE `+values+` ON CONFLICT (id) DO UPDATE SET action = excluded.action`)
		}
		for _, statement := range statements {
			err := d.Tx(t.Context(), func(tx *db.Tx) error {
				_, err := tx.ExecContext(t.Context(), statement)
				return err
			})
			if err == nil || !strings.Contains(err.Error(), "append-only") {
				t.Errorf("%s: error = %v, want append-only", statement, err)
			}
		}
		list, _, err := audit.New(d).List(t.Context(), inst, audit.Filter{}, "", 10)
		if err != nil || len(list) != 1 || list[0].Actor.Name != "Certvault" || list[0].Action != audit.TokenCreated {
			t.Errorf("List = %+v, %v, want only the unchanged entry", list, err)
		}
	})
}

func TestFiltersAndPages(t *testing.T) {
	t.Parallel()
	dbtest.Each(t, func(t *testing.T, d *db.DB) {
		mine, other := institution(t, d, "AAA"), institution(t, d, "BBB")
		token := audit.WithActor(t.Context(), audit.Actor{Type: audit.Token, ID: "7", Name: "CI"})
		for i := range 25 {
			ctx, action := jane(t.Context()), audit.CertificateUploaded
			if i%5 == 0 {
				ctx, action = token, audit.TokenRevoked
			}
			// Up to three entries have the same time, so that the id decides their order.
			record(t, d, ctx, audit.Entry{InstitutionID: mine, At: day.Add(time.Duration(i/3) * time.Hour), Action: action,
				Subject: audit.Subject{Type: "x", ID: fmt.Sprint("s-", i%2), Name: fmt.Sprint("Thing ", i%2)}})
		}
		record(t, d, jane(t.Context()), audit.Entry{InstitutionID: other, At: day, Action: audit.CertificateUploaded})
		log := audit.New(d)
		for name, tc := range map[string]struct {
			f    audit.Filter
			want int
		}{
			"all":     {audit.Filter{}, 25},
			"name":    {audit.Filter{Actor: " jane doe"}, 20},
			"id":      {audit.Filter{Actor: "u-1"}, 20},
			"kind":    {audit.Filter{Actor: "token"}, 5},
			"none":    {audit.Filter{Actor: "' OR 1=1 --"}, 0},
			"action":  {audit.Filter{Action: "token.revoked"}, 5},
			"group":   {audit.Filter{Action: "certificate"}, 20},
			"any":     {audit.Filter{Action: "%"}, 0},
			"subject": {audit.Filter{Subject: "THING 1"}, 12},
			"sid":     {audit.Filter{Subject: "s-0"}, 13},
			"from":    {audit.Filter{From: day.Add(7 * time.Hour)}, 4},
			"to":      {audit.Filter{To: day.Add(time.Hour)}, 3},
			"both":    {audit.Filter{From: day.Add(time.Hour), To: day.Add(2 * time.Hour), Actor: "jane doe"}, 2},
		} {
			seen := map[int64]bool{}
			var last *audit.Entry
			for after := ""; ; {
				list, next, err := log.List(t.Context(), mine, tc.f, after, 4)
				if err != nil {
					t.Fatal(err)
				}
				for i := range list {
					e := &list[i]
					if seen[e.ID] || e.InstitutionID != mine || last != nil && (e.At.After(last.At) || e.At.Equal(last.At) && e.ID > last.ID) {
						t.Fatalf("%s: %+v follows %+v, want each entry of the institution once, newest first", name, e, last)
					}
					seen[e.ID], last = true, e
				}
				if after = next; after == "" {
					break
				}
			}
			if len(seen) != tc.want {
				t.Errorf("%s: %d entries, want %d", name, len(seen), tc.want)
			}
			// Read backwards from the last entry: each of the remaining entries is returned once more,
			// and the last read reports that there are no newer entries.
			returned := 1
			for last != nil {
				list, more, err := log.Before(t.Context(), mine, tc.f, last.Mark(), 4)
				if err != nil {
					t.Fatal(err)
				}
				for i := range list {
					if returned++; !seen[list[i].ID] || list[i].ID == last.ID || i > 0 && list[i].At.After(list[i-1].At) {
						t.Errorf("%s: Before returned the unexpected entry %+v", name, list[i])
					}
				}
				if !more {
					break
				}
				last = &list[0]
			}
			if returned != max(1, tc.want) {
				t.Errorf("%s: Before returned %d entries, want %d", name, returned, tc.want)
			}
		}
		for _, after := range []string{"x", "AAAA", strings.Repeat("A", 500)} {
			if _, _, err := log.List(t.Context(), mine, audit.Filter{}, after, 4); !fault.Is(err, fault.Invalid) {
				t.Errorf("List with the mark %.10q: error = %v, want fault.Invalid", after, err)
			}
			if _, _, err := log.Before(t.Context(), mine, audit.Filter{}, after, 4); !fault.Is(err, fault.Invalid) {
				t.Errorf("Before with the mark %.10q: error = %v, want fault.Invalid", after, err)
			}
		}
	})
}

func TestExport(t *testing.T) {
	t.Parallel()
	dbtest.Each(t, func(t *testing.T, d *db.DB) {
		inst := institution(t, d, "AAA")
		const entries = 1203 // three queries
		if err := d.Tx(t.Context(), func(tx *db.Tx) error {
			for i := range entries {
				ctx := audit.WithActor(t.Context(), audit.Actor{Type: audit.User, ID: "u", Name: `=HYPERLINK("http://evil.example","x")`})
				if err := audit.RecordTx(ctx, tx, audit.Entry{InstitutionID: inst, At: day.Add(time.Duration(i) * time.Second), Action: audit.MemberChanged,
					Subject: audit.Subject{Type: "member", ID: fmt.Sprint(i), Name: "+1;=2\n\"q\""}, Detail: audit.Detail{"role": "admin"}}); err != nil {
					return err
				}
			}
			return nil
		}); err != nil {
			t.Fatal(err)
		}
		log, ctx := audit.New(d), jane(t.Context())
		until := audit.Filter{To: day.Add(24 * time.Hour)}
		var text, lines bytes.Buffer
		if err := log.Export(ctx, &text, inst, until, audit.CSV); err != nil {
			t.Fatal(err)
		}
		if err := log.Export(ctx, &lines, inst, until, audit.JSONL); err != nil {
			t.Fatal(err)
		}
		rows, err := csv.NewReader(strings.NewReader(strings.TrimPrefix(text.String(), "\ufeff"))).ReadAll()
		if err != nil || len(rows) != entries+1 {
			t.Fatalf("%d rows, %v, want %d", len(rows), err, entries+1)
		}
		for _, r := range rows[1:] {
			for _, cell := range r {
				if cell != "" && strings.ContainsRune("=+-@\t\r", rune(cell[0])) {
					t.Fatalf("a spreadsheet would evaluate the cell %q", cell)
				}
			}
		}
		dec := json.NewDecoder(&lines)
		n := 0
		for dec.More() {
			var r struct {
				Time    time.Time                   `json:"time"`
				Actor   struct{ Type, Name string } `json:"actor"`
				Subject struct{ ID, Name string }   `json:"subject"`
				Detail  map[string]string           `json:"detail"`
			}
			if err := dec.Decode(&r); err != nil {
				t.Fatal(err)
			}
			if n++; r.Subject.ID != fmt.Sprint(entries-n) || r.Subject.Name != "+1;=2\n\"q\"" || r.Detail["role"] != "admin" || r.Actor.Type != "user" {
				t.Fatalf("line %d = %+v, want the entries of the user, newest first", n, r)
			}
		}
		if n != entries {
			t.Errorf("%d lines, want %d", n, entries)
		}
		list, _, err := log.List(ctx, inst, audit.Filter{Action: "audit.exported"}, "", 10)
		if err != nil || len(list) != 2 || list[0].Detail["format"] != "jsonl" || list[1].Actor.Name != "Jane DOE" || list[1].Detail["to"] == nil {
			t.Errorf("entries about the exports = %+v, %v, want 2 with format, actor and time", list, err)
		}
	})
}

func TestChanges(t *testing.T) {
	t.Parallel()
	type settings struct {
		A string
		B []int
	}
	if d, err := audit.Changes(settings{"x", []int{1}}, settings{"x", []int{1}}); d != nil || err != nil {
		t.Errorf("Changes of equal records = %v, %v, want nil", d, err)
	}
	d, err := audit.Changes(settings{"x", []int{1}}, settings{"y", []int{1}})
	text, failed := json.Marshal(d)
	if err != nil || failed != nil || string(text) != `{"A":{"from":"x","to":"y"}}` {
		t.Errorf("Changes = %s, %v, %v, want only the change of A", text, err, failed)
	}
}

func TestEveryActionHasAPhrase(t *testing.T) {
	t.Parallel()
	seen := map[audit.Action]bool{}
	for _, a := range audit.Actions {
		group, verb, ok := strings.Cut(string(a.Action), ".")
		if seen[a.Action] || !ok || group == "" || verb == "" || a.Phrase == "" || a.Action.Phrase() != a.Phrase {
			t.Errorf("invalid entry of Actions: %+v, want a unique action with a group, a verb and a phrase", a)
		}
		seen[a.Action] = true
	}
}

// TestCombinedFilters checks that List with a filter of several fields returns the entries for which
// matches returns true.
func TestCombinedFilters(t *testing.T) {
	t.Parallel()
	if testing.Short() {
		t.Skip("-short skips this long test; make test/long runs it")
	}
	dbtest.Each(t, func(t *testing.T, d *db.DB) {
		mine := institution(t, d, "AAA")
		// The name of one actor is the id of another actor, and the name of a third actor is an
		// actor type.
		actors := []audit.Actor{{Type: audit.User, ID: "u-1", Name: "Jane"}, {Type: audit.User, ID: "u-2", Name: "U-1"}, {Type: audit.Token, ID: "7", Name: "user"}, {Type: audit.Command, Name: "root"}}
		subjects := []audit.Subject{{Type: "x", ID: "s-1", Name: "One"}, {Type: "x", ID: "s-2", Name: "s-1"}, {}}
		actions := []audit.Action{audit.CertificateUploaded, audit.CertificateRevoked, audit.TokenRevoked}
		for i := range 72 {
			record(t, d, audit.WithActor(t.Context(), actors[i%4]), audit.Entry{
				InstitutionID: mine, At: day.Add(time.Duration(i/5) * time.Hour), Action: actions[i/4%3], Subject: subjects[i/12%3],
			})
		}
		log := audit.New(d)
		all, _, err := log.List(t.Context(), mine, audit.Filter{}, "", audit.MaxPage)
		if err != nil || len(all) != 72 {
			t.Fatalf("%d entries, %v, want 72", len(all), err)
		}
		for _, actor := range []string{"", "u-1", "USER", "root", "unknown", "AN", "u", "%", "_"} {
			for _, subject := range []string{"", "s-1", "one", "unknown", "n", "S-"} {
				for _, action := range []string{"", "certificate", "certificate.revoked", "webhook.created", "certificate.revok", "cert"} {
					for _, from := range []time.Time{{}, day.Add(5 * time.Hour)} {
						f := audit.Filter{Actor: actor, Subject: subject, Action: action, From: from}
						var want []int64
						for i := range all {
							if matches(&all[i], &f) {
								want = append(want, all[i].ID)
							}
						}
						list, _, err := log.List(t.Context(), mine, f, "", audit.MaxPage)
						if err != nil {
							t.Fatal(err)
						}
						var got []int64
						for i := range list {
							got = append(got, list[i].ID)
						}
						if !slices.Equal(got, want) {
							t.Errorf("List with %+v = %v, want %v", f, got, want)
						}
					}
				}
			}
		}
	})
}

// TestPartsOfNamesAreBounded checks that a part of a name is found only in the newest entries of the
// selected time, and a whole name in all entries.
func TestPartsOfNamesAreBounded(t *testing.T) {
	t.Parallel()
	dbtest.Each(t, func(t *testing.T, d *db.DB) {
		inst := institution(t, d, "AAA")
		record(t, d, jane(t.Context()), audit.Entry{InstitutionID: inst, At: day, Action: audit.CertificateUploaded})
		if _, err := d.Writer().ExecContext(t.Context(), `
			INSERT INTO audit_entries (institution_id, at, actor_type, actor_id, actor_name, actor_folded, action,
				subject_type, subject_id, subject_name, subject_folded, detail, address, request_id)
			WITH RECURSIVE n (i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < $1)
			SELECT $2, CAST($3 AS BIGINT) + i, 'token', '7', 'CI', 'ci', 'token.revoked', 'x', 's', 'S', 's', '{}', '', '' FROM n`,
			audit.PartialEntries, inst, db.Micros(day.Add(time.Hour))); err != nil {
			t.Fatal(err)
		}
		log := audit.New(d)
		for name, tc := range map[string]struct {
			f    audit.Filter
			want int
		}{
			"a part of an old name":                      {audit.Filter{Actor: "jane d"}, 0},
			"a part of an old name and another field":    {audit.Filter{Actor: "jane d", Action: "certificate"}, 0},
			"an old name":                                {audit.Filter{Actor: "jane doe"}, 1},
			"a part of an old name in the selected time": {audit.Filter{Actor: "jane d", To: day.Add(time.Minute)}, 1},
			"a part of a new name":                       {audit.Filter{Actor: "c", From: day.Add(time.Hour)}, 10},
		} {
			if list, _, err := log.List(t.Context(), inst, tc.f, "", 10); err != nil || len(list) != tc.want {
				t.Errorf("%s: %d entries, error %v, want %d", name, len(list), err, tc.want)
			}
		}
	})
}

func matches(e *audit.Entry, f *audit.Filter) bool {
	is := func(value string, candidates ...string) bool {
		return value == "" || slices.ContainsFunc(candidates, func(candidate string) bool { return strings.EqualFold(candidate, value) })
	}
	has := func(name, part string) bool { return strings.Contains(strings.ToLower(name), strings.ToLower(part)) }
	group, _, _ := strings.Cut(string(e.Action), ".")
	return (is(f.Actor, e.Actor.ID, string(e.Actor.Type)) || has(e.Actor.Name, f.Actor)) && (is(f.Subject, e.Subject.ID) || has(e.Subject.Name, f.Subject)) &&
		is(f.Action, string(e.Action), group) && !e.At.Before(f.From)
}
