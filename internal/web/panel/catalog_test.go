package panel

import (
	"testing"

	"github.com/certvault/certvault/internal/account"
	"github.com/certvault/certvault/internal/audit"
	"github.com/certvault/certvault/internal/batch"
	"github.com/certvault/certvault/internal/cert"
	"github.com/certvault/certvault/internal/locale"
	"github.com/certvault/certvault/internal/recipient"
	"github.com/certvault/certvault/internal/token"
	"github.com/certvault/certvault/internal/webhook"
)

// english returns the texts in English.
func english(t *testing.T) texts {
	t.Helper()
	c, err := locale.Load()
	if err != nil {
		t.Fatal(err)
	}
	return texts{c.Languages()[0]}
}

// The catalog has the messages whose keys are built from constants at run time, and the messages of all
// notices.
func TestCatalogHasMessagesOfConstants(t *testing.T) {
	t.Parallel()
	c, err := locale.Load()
	if err != nil {
		t.Fatal(err)
	}
	var keys []string
	for _, r := range account.Roles {
		keys = append(keys, "roles."+string(r.Role), "roles."+string(r.Role)+"_hint")
	}
	for _, r := range newRoleTable().Rows {
		keys = append(keys, r.Key)
	}
	for _, g := range (&tokenForm{}).Groups() {
		keys = append(keys, g.Key)
		for _, p := range g.Permissions {
			keys = append(keys, p.Key)
		}
	}
	for _, p := range token.Presets {
		keys = append(keys, "token_presets."+p.Name, "token_presets."+p.Name+"_hint")
	}
	for _, e := range ends {
		keys = append(keys, "tokens.end_"+e.Value)
	}
	for _, o := range overlaps {
		keys = append(keys, "tokens.overlap_"+o.Value)
	}
	for _, g := range actionGroups() {
		keys = append(keys, g.Key)
		for _, a := range g.Actions {
			keys = append(keys, a.Key)
		}
	}
	for _, a := range audit.ActorTypes {
		keys = append(keys, "audit.type_"+string(a))
	}
	events, err := eventChoices()
	if err != nil {
		t.Fatal(err)
	}
	for _, e := range events {
		keys = append(keys, e.Key)
	}
	for _, o := range webhook.Outcomes {
		keys = append(keys, attemptView{Attempt: webhook.Attempt{Outcome: o}}.Key())
	}
	for _, s := range deliveryTabs {
		keys = append(keys, s.label)
	}
	for _, k := range keyKinds {
		keys = append(keys, k)
	}
	for _, label := range modes {
		keys = append(keys, label)
	}
	for _, m := range []recipient.Status{recipient.Waiting, recipient.Queued, recipient.Sent, recipient.Unsent, recipient.Failed, recipient.Dropped, recipient.Unsubscribed} {
		keys = append(keys, mailStates[m].Key)
	}
	for _, label := range mailReasons {
		keys = append(keys, label)
	}
	for _, label := range actionLabels {
		keys = append(keys, label)
	}
	for _, label := range eventLabels {
		keys = append(keys, label.Key)
	}
	for _, label := range sources {
		keys = append(keys, label)
	}
	for _, s := range cert.Sources {
		keys = append(keys, sourceLabels[s])
	}
	keys = append(keys, "certificate.event_issued")
	for field, name := range fieldKeys {
		keys = append(keys, "cert_field."+name, "cert_problem.required_"+name)
		if controlOf[field] == "" {
			t.Errorf("the field %s has no control", field)
		}
	}
	for _, code := range []cert.Code{cert.CodeDuplicate, cert.CodeUnchanged, cert.CodeSameFile, cert.CodeNotCertificate, batch.CodeUnknownFile} {
		keys = append(keys, "cert_problem."+string(code))
	}
	for _, key := range keys {
		if !c.Languages()[0].Has(key) {
			t.Errorf("the catalog lacks %s", key)
		}
	}
	for name, key := range notices {
		if !c.Languages()[0].Has(key) {
			t.Errorf("notice %s: the catalog lacks %s", name, key)
		}
	}
}
