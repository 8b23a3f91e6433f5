package cert

import (
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/certvault/certvault/internal/audit"
	"github.com/certvault/certvault/internal/webhook"
)

// HistoryEntry is one entry in the history of a certificate.
type HistoryEntry struct {
	At time.Time
	// Event is the name of the webhook event, or "" for an operation without an event. Action is the
	// action of the audit log, or "" if the audit log has no entry for the event.
	Event  webhook.Name
	Action audit.Action
	// By is the person, the token or the vault that acted. The zero value also means the vault.
	By audit.Actor
	// Failure is the reason why processing failed, or nil. Reason is the public reason of a
	// revocation.
	Failure *Failure
	Reason  string
	// Asks reports whether the signatories were asked at this time.
	Asks bool
	// Detail is the detail of the entry of the audit log, if that entry belongs to no event.
	Detail     audit.Detail
	Deliveries []webhook.Delivery
}

// actionsOfEvent has the actions of the audit log that belong to each event.
var actionsOfEvent = map[webhook.Name][]audit.Action{
	webhook.Created: {audit.CertificateUploaded, audit.ApplicationSubmitted}, webhook.Processing: {audit.ApplicationApproved},
	webhook.Updated: {audit.ApplicationHeld, audit.ApplicationAnswered, audit.ApplicationReleased}, webhook.Failed: {audit.CertificateDeclined},
	webhook.Retried: {audit.CertificateRetried}, webhook.Revoked: {audit.CertificateRevoked},
}

// History returns the history of a certificate, oldest first: its events with their deliveries, the
// approvals of its signatories, and its entries in the audit log. If the event of a change is missing, its
// entry is built from the record.
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
		if e.Name == webhook.Revoked {
			m.Reason = c.RevocationReason // the event of a replaced certificate has a reason, but the record has none
		}
		if e.FailureCode != "" {
			m.Failure = &Failure{Code: e.FailureCode, Message: e.FailureMessage}
		}
		list = append(list, m)
	}
	found, err := s.Signatures(ctx, c.InstitutionID, c.ID)
	if err != nil {
		return nil, err
	}
	signatures := found[c.ID]
	list = c.withRecorded(list)
	if len(signatures) > 0 {
		list = c.withSignatures(list, signatures)
	}
	for _, e := range entries {
		asks := e.Action == audit.ApplicationApproved && len(signatures) > 0
		i := slices.IndexFunc(list, func(m HistoryEntry) bool {
			same := m.Action == "" && slices.Contains(actionsOfEvent[m.Event], e.Action)
			signed := e.Action == audit.CertificateSigned && m.Action == e.Action && m.By.Name == e.Actor.Name
			return (same && !asks || signed) && sameOperation(m.At, e.At)
		})
		if i < 0 {
			list = append(list, HistoryEntry{At: e.At, Action: e.Action, By: e.Actor, Detail: e.Detail, Asks: asks})
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

// withSignatures returns the list with an added entry for each approval of a signatory, and one for the
// start of processing after the last approval. The approval of a batch has no entry for each
// certificate in the audit log. withSignatures also sets Asks.
func (c *Certificate) withSignatures(list []HistoryEntry, signatures []*Signature) []HistoryEntry {
	declined := false
	for i := range list {
		m := &list[i]
		switch m.Event { //nolint:exhaustive // the signatories are not asked at other events
		case webhook.Created:
			m.Asks = c.Source == Template
		case webhook.Failed:
			declined = m.Failure != nil && m.Failure.Code == CodeDeclined
		case webhook.Retried:
			m.Asks = declined
		}
	}
	var last *time.Time
	for _, one := range signatures {
		if one.Status != SignatureApproved || one.ApprovedAt == nil {
			last = nil
			break
		}
		if last == nil || one.ApprovedAt.After(*last) {
			last = one.ApprovedAt
		}
	}
	for _, one := range signatures {
		if one.ApprovedAt != nil {
			list = append(list, HistoryEntry{At: *one.ApprovedAt, Action: audit.CertificateSigned, By: audit.Actor{Type: audit.User, Name: one.Name}})
		}
	}
	if last != nil && !slices.ContainsFunc(list, func(m HistoryEntry) bool { return m.Event == webhook.Processing }) {
		list = append(list, HistoryEntry{At: *last, Event: webhook.Processing})
	}
	return list
}
