package cert

import (
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/certvault/certvault/internal/audit"
	"github.com/certvault/certvault/internal/webhook"
)

// HistoryEntry is one event in the history of a certificate.
type HistoryEntry struct {
	At time.Time
	// Event is the name of the webhook event, or "" for an operation without an event. Action is the
	// action of the audit log, or "" if the audit log has no entry for the event.
	Event  webhook.Name
	Action audit.Action
	// By is the person or token that acted. The zero value means the vault itself.
	By audit.Actor
	// Failure is the reason why processing failed, or nil. Reason is the public reason of a
	// revocation.
	Failure *Failure
	Reason  string
	// Detail is the detail of the audit log.
	Detail     audit.Detail
	Deliveries []webhook.Delivery
}

// actionOfEvent has the action of the audit log for each event that has such an action.
var actionOfEvent = map[webhook.Name]audit.Action{
	webhook.Created: audit.CertificateUploaded, webhook.Retried: audit.CertificateRetried, webhook.Revoked: audit.CertificateRevoked,
}

// History returns the history of a certificate, oldest first: its events with their deliveries, and
// its entries in the audit log. An entry whose event is missing is built from the record.
func (s *Service) History(ctx context.Context, c *Certificate) ([]HistoryEntry, error) {
	events, err := s.hooks.History(ctx, c.InstitutionID, c.ID)
	if err != nil {
		return nil, err
	}
	entries, err := audit.New(s.db).OfSubject(ctx, c.InstitutionID, c.UUID)
	if err != nil {
		return nil, err
	}
	var list []HistoryEntry
	for _, e := range events {
		m := HistoryEntry{At: e.OccurredAt, Event: e.Name, Reason: e.Reason, Deliveries: e.Deliveries}
		if e.FailureCode != "" {
			m.Failure = &Failure{Code: e.FailureCode, Message: e.FailureMessage}
		}
		list = append(list, m)
	}
	list = c.withRecorded(list)
	for _, e := range entries {
		i := slices.IndexFunc(list, func(m HistoryEntry) bool {
			return actionOfEvent[m.Event] == e.Action && m.Action == "" && sameOperation(m.At, e.At)
		})
		if i < 0 {
			list = append(list, HistoryEntry{At: e.At, Action: e.Action, By: e.Actor, Detail: e.Detail})
			continue
		}
		if list[i].Action = e.Action; e.Actor.Type != audit.System || list[i].By.Name == "" {
			list[i].By = e.Actor
		}
	}
	slices.SortStableFunc(list, func(a, b HistoryEntry) int { return a.At.Compare(b.At) })
	return list, nil
}

// sameOperation reports whether two times are close enough to belong to one operation.
func sameOperation(a, b time.Time) bool { return a.Sub(b).Abs() < 5*time.Second }

// withRecorded returns the list with an added entry for each time in the record that has no event.
// It sets the creator of the certificate in the entry of the creation.
func (c *Certificate) withRecorded(list []HistoryEntry) []HistoryEntry {
	add := func(name webhook.Name, at *time.Time, m HistoryEntry) {
		if at == nil || slices.ContainsFunc(list, func(m HistoryEntry) bool { return m.Event == name }) {
			return
		}
		m.Event, m.At = name, *at
		list = append(list, m)
	}
	add(webhook.Created, &c.CreatedAt, HistoryEntry{})
	add(webhook.Approved, c.ApprovedAt, HistoryEntry{})
	if c.Status == Failed {
		add(webhook.Failed, &c.UpdatedAt, HistoryEntry{Failure: c.Failure})
	}
	add(webhook.Revoked, c.RevokedAt, HistoryEntry{Reason: c.RevocationReason})
	for i := range list {
		if m := &list[i]; m.Event == webhook.Created && m.By.Name == "" {
			m.By = audit.Actor{Type: audit.ActorType(c.Creator.Type), ID: fmt.Sprint(c.Creator.ID), Name: c.Creator.Name}
		}
	}
	return list
}
