package panel

import (
	"regexp"
	"testing"

	"github.com/certvault/certvault/internal/account"
	"github.com/certvault/certvault/internal/audit"
	"github.com/certvault/certvault/internal/locale"
	"github.com/certvault/certvault/internal/token"
	"github.com/certvault/certvault/internal/webhook"
)

// noticeKey matches a notice that is a key of the catalog, and not a text.
var noticeKey = regexp.MustCompile(`^[a-z_]+\.[a-z_0-9]+$`)

// The catalog has a message for each constant whose message pages choose at run time, and for each
// notice that is a key.
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
	for _, key := range keys {
		if !c.Languages()[0].Has(key) {
			t.Errorf("the catalog lacks %s", key)
		}
	}
	for name, text := range notices {
		if noticeKey.MatchString(text) && !c.Languages()[0].Has(text) {
			t.Errorf("notice %s: the catalog lacks %s", name, text)
		}
	}
}
