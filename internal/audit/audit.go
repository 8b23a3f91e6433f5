// Package audit writes and reads the audit log: the actor, the subject, the time and the client
// address of each action. If an action changes the database, its entry is written in the same
// transaction, so that neither exists without the other. The database rejects statements that change
// or delete entries. Other packages call RecordTx for their actions.
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

// ActorType is the type of an actor.
type ActorType string

const (
	// User is a person who uses the pages of the vault, signed in or not.
	User ActorType = "user"
	// Token is a program with an API token.
	Token ActorType = "token"
	// Command is a person at the command line of the server.
	Command ActorType = "command"
	// System is Certvault itself.
	System ActorType = "system"
)

// ActorTypes lists all types of actors.
var ActorTypes = []ActorType{User, Token, Command, System}

// Actor is the person or program that performs an action.
type Actor struct {
	Type ActorType
	// ID is the UUID of a person, the number of a token, or "". Name is the display name.
	ID, Name string
	// Address is the address of the client, or the zero value if there is none.
	Address netip.Addr
	// RequestID is the id of the request in the server's log.
	RequestID string
}

// Certvault is the actor of actions that Certvault performs by itself.
var Certvault = Actor{Type: System, Name: "Certvault"}

type contextKey struct{}

// WithActor returns a context with an actor.
func WithActor(ctx context.Context, a Actor) context.Context {
	return context.WithValue(ctx, contextKey{}, a)
}

// ActorOf returns the actor of a context, or Certvault if the context has no actor.
func ActorOf(ctx context.Context) Actor {
	if a, ok := ctx.Value(contextKey{}).(Actor); ok {
		return a
	}
	return Certvault
}

// Subject is the object of an action.
type Subject struct {
	// Type is a noun, for example "certificate".
	Type string `json:"type"`
	// ID is an identifier, for example a UUID; Name is the display name.
	ID   string `json:"id"`
	Name string `json:"name"`
}

// Detail contains further facts about an action. It never contains a secret.
type Detail map[string]any

// Entry is one entry of the log.
type Entry struct {
	ID int64
	// InstitutionID is the institution whose log contains the entry; 0 is the log of the
	// installation.
	InstitutionID int64
	// At is the time of the action. RecordTx replaces the zero value with the current time.
	At time.Time
	// Actor is the person or program that performed the action. RecordTx ignores the field and
	// stores the actor of the context.
	Actor   Actor
	Action  Action
	Subject Subject
	Detail  Detail
}

const (
	maxName   = 300
	maxDetail = 8 << 10
)

// RecordTx writes an entry in a transaction, usually that of the action. The actor is the
// actor of the context.
func RecordTx(ctx context.Context, tx *db.Tx, e Entry) error {
	if !e.Action.Known() {
		return fmt.Errorf("recording an action: unknown action %q", string(e.Action))
	}
	detail, err := json.Marshal(e.Detail)
	switch {
	case err != nil:
		return fmt.Errorf("recording %s: %w", e.Action, err)
	case e.Detail == nil:
		detail = []byte("{}")
	case len(detail) > maxDetail:
		return fmt.Errorf("recording %s: the detail exceeds %d bytes", e.Action, maxDetail)
	}
	if e.At.IsZero() {
		e.At = time.Now()
	}
	var institution any
	if e.InstitutionID != 0 {
		institution = e.InstitutionID
	}
	a := ActorOf(ctx)
	a.Name, e.Subject.Name = short(a.Name), short(e.Subject.Name)
	address := ""
	if a.Address.IsValid() {
		address = a.Address.String()
	}
	column, id := db.NewID(tx, "audit_entries")
	if _, err := tx.ExecContext(ctx, `
		INSERT INTO audit_entries (`+column+`institution_id, at, actor_type, actor_id, actor_name, actor_folded, action,
			subject_type, subject_id, subject_name, subject_folded, detail, address, request_id)
		VALUES (`+id+`$1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12, $13, $14)`,
		institution, db.Micros(e.At), string(a.Type), a.ID, a.Name, fold(a.Name), string(e.Action),
		e.Subject.Type, e.Subject.ID, e.Subject.Name, fold(e.Subject.Name), string(detail), address, a.RequestID); err != nil {
		return fmt.Errorf("recording %s: %w", e.Action, err)
	}
	return nil
}

// short truncates a name to maxName characters.
func short(s string) string {
	if utf8.RuneCountInString(s) > maxName {
		return string([]rune(s)[:maxName])
	}
	return s
}

// fold returns text in the form that filters compare.
func fold(s string) string { return strings.ToLower(norm.NFC.String(strings.TrimSpace(s))) }

// Changes compares two versions of an object. It returns each field whose value differs, with the old and the
// new value, or nil if no field differs. Both arguments must marshal to JSON objects.
func Changes(before, after any) (Detail, error) {
	old, err := object(before)
	if err != nil {
		return nil, err
	}
	updated, err := object(after)
	if err != nil {
		return nil, err
	}
	var d Detail
	for name, value := range updated {
		if !slices.Equal(old[name], value) {
			if d == nil {
				d = Detail{}
			}
			d[name] = struct {
				From json.RawMessage `json:"from"`
				To   json.RawMessage `json:"to"`
			}{old[name], value}
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
