// Package audit owns the log of what was done in the vault: who did what, to
// what, when and from where. It is written in the transaction of the deed, so
// that there is neither a deed without its entry nor an entry without its deed,
// and the database itself refuses to change or remove what was written. It
// knows no domain beyond the names of the deeds; the domains record theirs.
package audit

import (
	"context"
	"encoding/json"
	"fmt"
	"net/netip"
	"slices"
	"strings"
	"time"
	"unicode/utf8"

	"golang.org/x/text/unicode/norm"

	"github.com/certvault/certvault/internal/db"
)

// ActorType is what kind of hand did a deed.
type ActorType string

const (
	// User is a person who is signed in, or who tries to be.
	User ActorType = "user"
	// Token is a program with an API token.
	Token ActorType = "token"
	// Command is somebody at the machine's command line.
	Command ActorType = "command"
	// System is the vault itself.
	System ActorType = "system"
)

// ActorTypes are all kinds.
var ActorTypes = []ActorType{User, Token, Command, System}

// Actor is who does something, and from where.
type Actor struct {
	Type ActorType
	// ID is a person's UUID or a token's number; Name is how people know them.
	ID, Name string
	// Address is where the request came from; the zero value is none.
	Address netip.Addr
	// RequestID is the id under which the request is in the server's log.
	RequestID string
}

// Itself is the vault.
var Itself = Actor{Type: System, Name: "Certvault"}

type contextKey struct{}

// With gives a context in which an actor does everything.
func With(ctx context.Context, a Actor) context.Context {
	return context.WithValue(ctx, contextKey{}, a)
}

// By gives the actor of a context; without one it is the vault itself.
func By(ctx context.Context) Actor {
	if a, ok := ctx.Value(contextKey{}).(Actor); ok {
		return a
	}
	return Itself
}

// Subject is what a deed was done to.
type Subject struct {
	// Type is a noun such as certificate.
	Type string `json:"type"`
	// ID is how the vault knows it, Name how people do.
	ID   string `json:"id"`
	Name string `json:"name"`
}

// Detail is what else there is to say of a deed. It never holds a secret.
type Detail map[string]any

// Entry is one deed.
type Entry struct {
	ID int64
	// InstitutionID is whose log it is in; 0 is the installation's.
	InstitutionID int64
	// At is when; the zero value becomes now.
	At time.Time
	// Actor is taken from the context.
	Actor   Actor
	Action  Action
	Subject Subject
	Detail  Detail
}

const (
	maxName   = 300
	maxDetail = 8 << 10
)

// RecordTx writes an entry in the transaction of its deed, with the actor of
// the context.
func RecordTx(ctx context.Context, tx *db.Tx, e Entry) error {
	if !e.Action.known() {
		return fmt.Errorf("recording a deed: there is no action %q", string(e.Action))
	}
	detail, err := json.Marshal(e.Detail)
	switch {
	case err != nil:
		return fmt.Errorf("recording %s: %w", e.Action, err)
	case e.Detail == nil:
		detail = []byte("{}")
	case len(detail) > maxDetail:
		return fmt.Errorf("recording %s: its detail has over %d bytes", e.Action, maxDetail)
	}
	if e.At.IsZero() {
		e.At = time.Now()
	}
	var institution any
	if e.InstitutionID != 0 {
		institution = e.InstitutionID
	}
	a := By(ctx)
	a.Name, e.Subject.Name = short(a.Name), short(e.Subject.Name)
	address := ""
	if a.Address.IsValid() {
		address = a.Address.String()
	}
	if _, err := tx.ExecContext(ctx, `
		INSERT INTO audit_entries (institution_id, at, actor_type, actor_id, actor_name, actor_folded, action,
			subject_type, subject_id, subject_name, subject_folded, detail, address, request_id)
		VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12, $13, $14)`,
		institution, db.Micros(e.At), string(a.Type), a.ID, a.Name, fold(a.Name), string(e.Action),
		e.Subject.Type, e.Subject.ID, e.Subject.Name, fold(e.Subject.Name), string(detail), address, a.RequestID); err != nil {
		return fmt.Errorf("recording %s: %w", e.Action, err)
	}
	return nil
}

// short bounds a name that somebody chose.
func short(s string) string {
	if utf8.RuneCountInString(s) > maxName {
		return string([]rune(s)[:maxName])
	}
	return s
}

// fold gives text in the form in which filters compare it.
func fold(s string) string { return strings.ToLower(norm.NFC.String(strings.TrimSpace(s))) }

// Changes says which values of a record changed, each with what it was and what
// it is; nil when none did. Both must become JSON objects.
func Changes(before, after any) (Detail, error) {
	was, err := object(before)
	if err != nil {
		return nil, err
	}
	is, err := object(after)
	if err != nil {
		return nil, err
	}
	var d Detail
	for name, value := range is {
		if !slices.Equal(was[name], value) {
			if d == nil {
				d = Detail{}
			}
			d[name] = struct {
				From json.RawMessage `json:"from"`
				To   json.RawMessage `json:"to"`
			}{was[name], value}
		}
	}
	return d, nil
}

func object(v any) (map[string]json.RawMessage, error) {
	text, err := json.Marshal(v)
	if err != nil {
		return nil, fmt.Errorf("comparing records: %w", err)
	}
	var o map[string]json.RawMessage
	if err := json.Unmarshal(text, &o); err != nil {
		return nil, fmt.Errorf("comparing records: %w", err)
	}
	return o, nil
}
