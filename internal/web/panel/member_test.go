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

// memberPath returns the path of a member's page.
func (o *panelTest) memberPath(name string) string {
	return "/panel/nwu/members/" + o.people.persons[name].UUID
}

func TestMembersPage(t *testing.T) {
	t.Parallel()
	o := newPanelTest(t, dbtest.SQLite(t))
	checkPage(t, "the list for an owner", o.get("owner", "/panel/nwu/members"), http.StatusOK, "Owner Person (you)", "issuer@example.org", "Change Issuer Person", "Permissions of each role", "Invite member")
	text := visibleText(t, o.get("admin", "/panel/nwu/members"))
	if strings.Contains(text, "Change Owner Person") || !strings.Contains(text, "Change Issuer Person") {
		t.Errorf("list for an admin = %s, want a link to change Issuer Person and no link to change Owner Person", text)
	}
	if text := visibleText(t, o.get("auditor", "/panel/nwu/members")); strings.Contains(text, "Change Issuer") || strings.Contains(text, "Invite member") || !strings.Contains(text, "Owner Person") {
		t.Errorf("list for an auditor = %s, want Owner Person, but no link to change or invite a person", text)
	}
	// An admin cannot choose the role of owner, and a forged request with that role is refused.
	if text := visibleText(t, o.get("admin", o.memberPath("issuer"))); strings.Contains(text, "Does everything") {
		t.Errorf("the form for an admin contains the role of owner: %s", text)
	}
	if w := o.post("admin", o.memberPath("issuer"), url.Values{"role": {"owner"}}); w.Code != http.StatusForbidden {
		t.Errorf("an admin assigns the role of owner: status = %d, want 403", w.Code)
	}
	checkPage(t, "an owner's page for an admin", o.get("admin", o.memberPath("owner")), http.StatusOK, "Only an owner")

	w := o.followRedirect(t, "owner", o.post("owner", o.memberPath("issuer"), url.Values{"role": {"auditor"}, "manage_webhooks": {"yes"}}), "/panel/nwu/members")
	checkPage(t, "after changing a member", w, http.StatusOK, "The member was changed.", "(can also manage webhooks)")
	checkPage(t, "an unknown role", o.post("owner", o.memberPath("issuer"), url.Values{"role": {"king"}}), http.StatusUnprocessableEntity, "Choose one of the roles.")

	checkPage(t, "the page that asks for confirmation", o.get("owner", o.memberPath("issuer")+"/remove"), http.StatusOK, "Remove “ Issuer Person ”?", "issuer@example.org")
	checkPage(t, "after removing a member", o.followRedirect(t, "owner", o.post("owner", o.memberPath("issuer")+"/remove", nil), "/panel/nwu/members"), http.StatusOK, "The member was removed.")
	if w := o.get("owner", o.memberPath("issuer")); w.Code != http.StatusNotFound {
		t.Errorf("the page of a removed member: status = %d, want 404", w.Code)
	}
}

// The last owner cannot leave, be removed or get another role. The page shows the reason.
func TestChangesOfTheLastOwnerAreRefused(t *testing.T) {
	t.Parallel()
	o := newPanelTest(t, dbtest.SQLite(t))
	for target, form := range map[string]url.Values{
		o.memberPath("owner"): {"role": {"admin"}}, o.memberPath("owner") + "/remove": nil, "/panel/nwu/leave": nil,
	} {
		checkPage(t, target, o.post("owner", target, form), http.StatusConflict, "must keep an owner")
	}
	// Each page has a link to leave the institution, because not every member may open the page of the members.
	for _, person := range []string{"issuer", "owner"} {
		if w := o.get(person, "/panel/nwu/certificates"); strings.Count(w.Body.String(), `href="/panel/nwu/leave"`) != 1 {
			t.Errorf("the list of certificates does not have exactly one link with which the %s can leave the institution", person)
		}
	}
	checkPage(t, "the page that asks for confirmation", o.get("issuer", "/panel/nwu/leave"), http.StatusOK, "Leave “ Northern & Western University ”?")
	if w := o.post("issuer", "/panel/nwu/leave", nil); w.Code != http.StatusSeeOther || w.Header().Get("Location") != "/panel" {
		t.Errorf("an issuer leaves the institution: status = %d, want a redirect (303) to /panel", w.Code)
	}
}

func TestInvitationsPages(t *testing.T) {
	t.Parallel()
	o := newPanelTest(t, dbtest.SQLite(t))
	form := url.Values{"email": {"new@example.org"}, "role": {"issuer"}, "language": {"fr"}}
	w := o.followRedirect(t, "admin", o.post("admin", "/panel/nwu/members/invite", form), "/panel/nwu/members")
	checkPage(t, "after inviting a person", w, http.StatusOK, "The invitation was sent", "new@example.org", "by Admin Person", "Send again")
	if m := o.sent[0]; m.To.Email != "new@example.org" || !strings.Contains(m.Text, "Voir l’invitation") {
		t.Errorf("mailed invitation = %+v, want a mail in French to new@example.org", m)
	}
	checkPage(t, "a second invitation of an address", o.post("admin", "/panel/nwu/members/invite", form), http.StatusUnprocessableEntity, "already has an invitation")
	checkPage(t, "an invalid form", o.post("admin", "/panel/nwu/members/invite", url.Values{"email": {"x"}, "language": {"xx"}}), http.StatusUnprocessableEntity,
		"must look like", "Choose one of the roles.", "Choose one of the languages.")
	if w := o.post("admin", "/panel/nwu/members/invite", url.Values{"email": {"o@example.org"}, "role": {"owner"}}); w.Code != http.StatusForbidden {
		t.Errorf("an admin invites an owner: status = %d, want 403", w.Code)
	}
	list, err := o.panel.Invitations.List(t.Context(), o.inst.ID)
	if err != nil || len(list) != 1 {
		t.Fatalf("invitations = %v, error %v, want one invitation", list, err)
	}
	at := "/panel/nwu/invitations/" + list[0].UUID
	checkPage(t, "resending at once", o.followRedirect(t, "admin", o.post("admin", at+"/resend", nil), "/panel/nwu/members"), http.StatusOK, "a moment ago")
	o.Advance(time.Hour)
	checkPage(t, "resending after an hour", o.followRedirect(t, "admin", o.post("admin", at+"/resend", nil), "/panel/nwu/members"), http.StatusOK, "with a new link")
	o.Advance(8 * 24 * time.Hour)
	checkPage(t, "an expired invitation", o.get("admin", "/panel/nwu/members"), http.StatusOK, "Expired")
	checkPage(t, "the page that asks for confirmation", o.get("admin", at+"/revoke"), http.StatusOK, "Cancel the invitation to “ new@example.org ”?")
	checkPage(t, "after withdrawing the invitation", o.followRedirect(t, "admin", o.post("admin", at+"/revoke", nil), "/panel/nwu/members"), http.StatusOK, "The invitation was canceled.")
}

// An invited person without an account creates an account on the page of the invitation. The person is
// then a member, is signed in, and has a verified address.
func TestJoinByInvitation(t *testing.T) {
	t.Parallel()
	dbtest.Each(t, func(t *testing.T, d *db.DB) {
		o := newPanelTest(t, d)
		if _, err := o.panel.Invitations.Invite(t.Context(), o.people.persons["owner"].ID, o.inst.ID, account.NewInvitation{Email: "New@example.org", Role: account.Auditor}); err != nil {
			t.Fatal(err)
		}
		at := account.InvitationPath + o.invitationSecret(t)
		for range 2 { // a GET changes nothing
			checkPage(t, "the page of the invitation", o.get("", at), http.StatusOK, "Owner Person invites New@example.org", "Auditor", "Create your account", "Decline")
		}
		checkPage(t, "the page for another person", o.get("issuer", at), http.StatusOK, "You are signed in as issuer@example.org", "Sign out")
		if w := o.post("issuer", at, nil); w.Code != http.StatusSeeOther || w.Header().Get("Location") != at {
			t.Errorf("another person accepts: status = %d, want a redirect to the invitation", w.Code)
		}
		if w := o.post("issuer", at+"/join", url.Values{"name": {"X"}, "password": {"correct horse"}}); w.Header().Get("Location") != at {
			t.Errorf("another person joins: status = %d, want a redirect to the invitation", w.Code)
		}
		checkPage(t, "a short password", o.post("", at+"/join", url.Values{"name": {"New Person"}, "password": {"short"}}), http.StatusUnprocessableEntity, "8 to 1000 characters", "New@example.org")
		checkPage(t, "an empty name", o.post("", at+"/join", url.Values{"name": {" "}, "password": {"correct horse"}}), http.StatusUnprocessableEntity, "The name must have 1 to 255 characters.")
		if w := o.post("", at+"/join", url.Values{"name": {"New Person"}, "password": {"correct horse"}}); w.Code != http.StatusSeeOther || w.Header().Get("Location") != "/panel/nwu" {
			t.Fatalf("joining: status = %d, want a redirect (303) to /panel/nwu; page %s", w.Code, visibleText(t, w))
		}
		if len(o.signIns.entries) != 1 || o.signIns.entries[0].Session.Person.Name != "New Person" || !o.signIns.entries[0].Session.Person.Verified {
			t.Fatalf("sign-ins = %+v, want only New Person with a verified address", o.signIns.entries)
		}
		m, err := o.panel.Accounts.Membership(t.Context(), o.signIns.entries[0].Session.Person.ID, "nwu")
		if err != nil || m.Role != account.Auditor {
			t.Errorf("membership = %+v, error %v, want the role of auditor", m, err)
		}
		checkPage(t, "a used invitation", o.get("", at), http.StatusNotFound, "This invitation is no longer valid")
		if w := o.post("", at+"/join", url.Values{"name": {"Second"}, "password": {"correct horse"}}); w.Code != http.StatusNotFound || len(o.signIns.entries) != 1 {
			t.Errorf("using the invitation twice: status = %d, want 404 and no further sign-in", w.Code)
		}
		list, _, err := o.panel.Audit.List(t.Context(), o.inst.ID, audit.Filter{Action: "invitation.accepted"}, "", 5)
		if err != nil || len(list) != 1 || list[0].Actor.Name != "New Person" || list[0].Actor.Address.String() != "203.0.113.9" {
			t.Errorf("entries in the audit log = %+v, error %v, want one entry of New Person from 203.0.113.9", list, err)
		}
	})
}

// An invited person with an account signs in first. Accepting the invitation verifies the address.
func TestAcceptInvitation(t *testing.T) {
	t.Parallel()
	o := newPanelTest(t, dbtest.SQLite(t))
	if _, err := o.panel.Invitations.Invite(t.Context(), o.people.persons["owner"].ID, o.inst.ID, account.NewInvitation{Email: "guest@example.org", Role: account.Issuer}); err != nil {
		t.Fatal(err)
	}
	at := account.InvitationPath + o.invitationSecret(t)
	w := o.get("", at)
	checkPage(t, "the page for a signed-out visitor", w, http.StatusOK, "Sign in to accept")
	if !strings.Contains(w.Body.String(), `href="/sign-in?next=`+strings.ReplaceAll(at, "/", "%2f")+`"`) || w.Header().Get("Referrer-Policy") != "no-referrer" {
		t.Errorf("the page lacks the link to the sign-in, or its Referrer-Policy is not no-referrer: %s", w.Body)
	}
	if w := o.post("", at, nil); w.Code != http.StatusSeeOther || !strings.HasPrefix(w.Header().Get("Location"), "/sign-in") {
		t.Errorf("a signed-out visitor accepts: status = %d, want a redirect to the sign-in", w.Code)
	}
	if w := o.post("", at+"/join", url.Values{"name": {"Other Person"}, "password": {"correct horse"}}); w.Header().Get("Location") != at || len(o.signIns.entries) != 0 {
		t.Errorf("joining with the address of an existing account: status = %d, want a redirect to the invitation and no sign-in", w.Code)
	}
	checkPage(t, "the page for the invited person", o.get("guest", at), http.StatusOK, "Accept")
	if w := o.post("guest", at, nil); w.Header().Get("Location") != "/panel/nwu" {
		t.Fatalf("accepting: status = %d, want a redirect to /panel/nwu; page %s", w.Code, visibleText(t, w))
	}
	p, err := o.panel.People.Person(t.Context(), o.DB, o.people.persons["guest"].ID)
	if err != nil || !p.Verified || !p.Member {
		t.Errorf("person = %+v, error %v, want a verified address and a membership", p, err)
	}
	// A mail program declines with one click (RFC 8058). Its request has no cookies and no origin.
	if _, err := o.panel.Invitations.Invite(t.Context(), o.people.persons["owner"].ID, o.inst.ID, account.NewInvitation{Email: "second@example.org", Role: account.Issuer}); err != nil {
		t.Fatal(err)
	}
	at = account.InvitationPath + o.invitationSecret(t)
	r := o.request("", http.MethodPost, at+"/decline", url.Values{"List-Unsubscribe": {"One-Click"}})
	r.Header.Del("Sec-Fetch-Site")
	checkPage(t, "declining with one click", o.send(r), http.StatusOK, "You declined")
	checkPage(t, "a declined invitation", o.get("", at), http.StatusNotFound, "This invitation is no longer valid")
}
