package panel

import (
	"net/http"
	"net/url"
	"strings"
	"testing"
	"time"

	"github.com/certvault/certvault/internal/account"
	"github.com/certvault/certvault/internal/audit"
	"github.com/certvault/certvault/internal/db"
	"github.com/certvault/certvault/internal/db/dbtest"
)

// member returns the path of a member's page.
func (o *panelTest) member(name string) string {
	return "/panel/nwu/members/" + o.people.persons[name].UUID
}

func TestMembersPage(t *testing.T) {
	t.Parallel()
	o := newPanelTest(t, dbtest.SQLite(t))
	says(t, "owner", o.get("owner", "/panel/nwu/members"), http.StatusOK, "Owner Person (you)", "issuer@example.org", "Change Issuer Person", "What each role may do", "Invite somebody")
	text := words(t, o.get("admin", "/panel/nwu/members"))
	if strings.Contains(text, "Change Owner Person") || !strings.Contains(text, "Change Issuer Person") {
		t.Errorf("an admin is offered %s", text)
	}
	if text := words(t, o.get("auditor", "/panel/nwu/members")); strings.Contains(text, "Change Issuer") || strings.Contains(text, "Invite somebody") || !strings.Contains(text, "Owner Person") {
		t.Errorf("an auditor is offered %s", text)
	}
	// An admin is not offered the role of owner, and a forged request for it is refused.
	if text := words(t, o.get("admin", o.member("issuer"))); strings.Contains(text, "Does everything") {
		t.Errorf("an admin may make owners: %s", text)
	}
	if w := o.post("admin", o.member("issuer"), url.Values{"role": {"owner"}}); w.Code != http.StatusForbidden {
		t.Errorf("an admin made an owner: %d", w.Code)
	}
	says(t, "an owner's page for an admin", o.get("admin", o.member("owner")), http.StatusOK, "Only an owner")

	w := o.redirects(t, "owner", o.post("owner", o.member("issuer"), url.Values{"role": {"auditor"}, "manage_webhooks": {"yes"}}), "/panel/nwu/members")
	says(t, "changed", w, http.StatusOK, "The member was changed.", "and Manage Webhooks")
	says(t, "no role", o.post("owner", o.member("issuer"), url.Values{"role": {"king"}}), http.StatusUnprocessableEntity, "Choose one of the roles.")

	says(t, "asked", o.get("owner", o.member("issuer")+"/remove"), http.StatusOK, "Remove “ Issuer Person ”?", "issuer@example.org")
	says(t, "removed", o.redirects(t, "owner", o.post("owner", o.member("issuer")+"/remove", nil), "/panel/nwu/members"), http.StatusOK, "The member was removed.")
	if w := o.get("owner", o.member("issuer")); w.Code != http.StatusNotFound {
		t.Errorf("who was removed is there: %d", w.Code)
	}
}

// A refused change of the last owner is explained on the page of the attempt.
func TestLastOwnerIsRefused(t *testing.T) {
	t.Parallel()
	o := newPanelTest(t, dbtest.SQLite(t))
	for target, form := range map[string]url.Values{
		o.member("owner"): {"role": {"admin"}}, o.member("owner") + "/remove": nil, "/panel/nwu/leave": nil,
	} {
		says(t, target, o.post("owner", target, form), http.StatusConflict, "must keep an owner")
	}
	says(t, "asked", o.get("issuer", "/panel/nwu/leave"), http.StatusOK, "Leave “ Northern & Western University ”?")
	if w := o.post("issuer", "/panel/nwu/leave", nil); w.Code != http.StatusSeeOther || w.Header().Get("Location") != "/panel" {
		t.Errorf("an issuer leaves: %d", w.Code)
	}
}

func TestInvitationsPages(t *testing.T) {
	t.Parallel()
	o := newPanelTest(t, dbtest.SQLite(t))
	form := url.Values{"email": {"new@example.org"}, "role": {"issuer"}, "language": {"fr"}}
	w := o.redirects(t, "admin", o.post("admin", "/panel/nwu/members/invite", form), "/panel/nwu/members")
	says(t, "invited", w, http.StatusOK, "on its way", "new@example.org", "by Admin Person", "Send again")
	if m := o.sent[0]; m.To.Email != "new@example.org" || !strings.Contains(m.Text, "Voir l'invitation") {
		t.Errorf("%+v", m)
	}
	says(t, "twice", o.post("admin", "/panel/nwu/members/invite", form), http.StatusUnprocessableEntity, "has an invitation already")
	says(t, "nonsense", o.post("admin", "/panel/nwu/members/invite", url.Values{"email": {"x"}, "language": {"xx"}}), http.StatusUnprocessableEntity,
		"must look like", "Choose one of the roles.", "Choose one of the languages.")
	if w := o.post("admin", "/panel/nwu/members/invite", url.Values{"email": {"o@example.org"}, "role": {"owner"}}); w.Code != http.StatusForbidden {
		t.Errorf("an admin invites an owner: %d", w.Code)
	}
	list, err := o.panel.Invitations.List(t.Context(), o.mine.ID)
	if err != nil || len(list) != 1 {
		t.Fatal(list, err)
	}
	at := "/panel/nwu/invitations/" + list[0].UUID
	says(t, "at once", o.redirects(t, "admin", o.post("admin", at+"/resend", nil), "/panel/nwu/members"), http.StatusOK, "a moment ago")
	o.Advance(time.Hour)
	says(t, "again", o.redirects(t, "admin", o.post("admin", at+"/resend", nil), "/panel/nwu/members"), http.StatusOK, "with a new link")
	o.Advance(8 * 24 * time.Hour)
	says(t, "over", o.get("admin", "/panel/nwu/members"), http.StatusOK, "Ended")
	says(t, "asked", o.get("admin", at+"/revoke"), http.StatusOK, "Take the invitation of “ new@example.org ” back?")
	says(t, "back", o.redirects(t, "admin", o.post("admin", at+"/revoke", nil), "/panel/nwu/members"), http.StatusOK, "taken back")
}

// An invited person without an account creates one on the page of the link. The address is then
// verified, and the person is signed in.
func TestJoinByInvitation(t *testing.T) {
	t.Parallel()
	dbtest.Each(t, func(t *testing.T, d *db.DB) {
		o := newPanelTest(t, d)
		if _, err := o.panel.Invitations.Invite(t.Context(), o.people.persons["owner"].ID, o.mine.ID, account.NewInvitation{Email: "New@example.org", Role: account.Auditor}); err != nil {
			t.Fatal(err)
		}
		at := account.InvitationPath + o.secret(t)
		for range 2 { // a GET changes nothing
			says(t, "page", o.get("", at), http.StatusOK, "Owner Person invites New@example.org", "Auditor", "Make your account", "Decline")
		}
		says(t, "somebody else", o.get("issuer", at), http.StatusOK, "You are signed in as issuer@example.org", "Sign out")
		if w := o.post("issuer", at, nil); w.Code != http.StatusSeeOther || w.Header().Get("Location") != at {
			t.Errorf("somebody else accepts: %d", w.Code)
		}
		if w := o.post("issuer", at+"/join", url.Values{"name": {"X"}, "password": {"correct horse"}}); w.Header().Get("Location") != at {
			t.Errorf("somebody else joins: %d", w.Code)
		}
		says(t, "short", o.post("", at+"/join", url.Values{"name": {"New Person"}, "password": {"short"}}), http.StatusUnprocessableEntity, "8 to 1000 characters", "New@example.org")
		says(t, "nameless", o.post("", at+"/join", url.Values{"name": {" "}, "password": {"correct horse"}}), http.StatusUnprocessableEntity, "the name must have")
		if w := o.post("", at+"/join", url.Values{"name": {"New Person"}, "password": {"correct horse"}}); w.Code != http.StatusSeeOther || w.Header().Get("Location") != "/panel/nwu" {
			t.Fatalf("%d %s", w.Code, words(t, w))
		}
		if len(o.door.entered) != 1 || o.door.entered[0].Session.Person.Name != "New Person" || !o.door.entered[0].Session.Person.Verified {
			t.Fatalf("let in: %+v", o.door.entered)
		}
		m, err := o.panel.Accounts.Membership(t.Context(), o.door.entered[0].Session.Person.ID, "nwu")
		if err != nil || m.Role != account.Auditor {
			t.Errorf("%+v, %v", m, err)
		}
		says(t, "used", o.get("", at), http.StatusNotFound, "This invitation is over")
		if w := o.post("", at+"/join", url.Values{"name": {"Second"}, "password": {"correct horse"}}); w.Code != http.StatusNotFound || len(o.door.entered) != 1 {
			t.Errorf("used twice: %d", w.Code)
		}
		list, _, err := o.panel.Audit.List(t.Context(), o.mine.ID, audit.Filter{Action: "invitation.accepted"}, "", 5)
		if err != nil || len(list) != 1 || list[0].Actor.Name != "New Person" || list[0].Actor.Address.String() != "203.0.113.9" {
			t.Errorf("%+v, %v", list, err)
		}
	})
}

// An invited person with an account signs in first. The link verifies the address.
func TestAcceptInvitation(t *testing.T) {
	t.Parallel()
	o := newPanelTest(t, dbtest.SQLite(t))
	if _, err := o.panel.Invitations.Invite(t.Context(), o.people.persons["owner"].ID, o.mine.ID, account.NewInvitation{Email: "nobody@example.org", Role: account.Issuer}); err != nil {
		t.Fatal(err)
	}
	at := account.InvitationPath + o.secret(t)
	w := o.get("", at)
	says(t, "signed out", w, http.StatusOK, "Sign in to accept")
	if !strings.Contains(w.Body.String(), `href="/sign-in?next=`+strings.ReplaceAll(at, "/", "%2f")+`"`) || w.Header().Get("Referrer-Policy") != "no-referrer" {
		t.Errorf("%s", w.Body)
	}
	if w := o.post("", at, nil); w.Code != http.StatusSeeOther || !strings.HasPrefix(w.Header().Get("Location"), "/sign-in") {
		t.Errorf("nobody accepts: %d", w.Code)
	}
	if w := o.post("", at+"/join", url.Values{"name": {"Thief"}, "password": {"correct horse"}}); w.Header().Get("Location") != at || len(o.door.entered) != 0 {
		t.Errorf("an account that there is was taken: %d", w.Code)
	}
	says(t, "theirs", o.get("nobody", at), http.StatusOK, "Accept")
	if w := o.post("nobody", at, nil); w.Header().Get("Location") != "/panel/nwu" {
		t.Fatalf("%d %s", w.Code, words(t, w))
	}
	p, err := o.panel.People.Person(t.Context(), o.DB, o.people.persons["nobody"].ID)
	if err != nil || !p.Verified || !p.Member {
		t.Errorf("%+v, %v", p, err)
	}
	// A mail program declines with one click: it sends neither cookies nor an origin.
	if _, err := o.panel.Invitations.Invite(t.Context(), o.people.persons["owner"].ID, o.mine.ID, account.NewInvitation{Email: "second@example.org", Role: account.Issuer}); err != nil {
		t.Fatal(err)
	}
	at = account.InvitationPath + o.secret(t)
	r := o.request("", http.MethodPost, at+"/decline", url.Values{"List-Unsubscribe": {"One-Click"}})
	r.Header.Del("Sec-Fetch-Site")
	says(t, "declined", o.send(r), http.StatusOK, "You declined")
	says(t, "over", o.get("", at), http.StatusNotFound, "This invitation is over")
}
