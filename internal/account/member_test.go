package account_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/certvault/certvault/internal/account"
	"github.com/certvault/certvault/internal/audit"
	"github.com/certvault/certvault/internal/db"
	"github.com/certvault/certvault/internal/db/dbtest"
	"github.com/certvault/certvault/internal/fault"
)

// crew is an institution with its members by role.
type crew struct {
	*account.Institution

	s  *account.Service
	of map[account.Role]*account.Member
}

// newCrew creates an institution with a member of each role. The addresses of the members begin
// with the prefix.
func newCrew(t *testing.T, d *db.DB, now func() time.Time, prefix string) *crew {
	t.Helper()
	s := account.New(d, now, cheap)
	inst, err := s.OpenInstitution(t.Context(), account.NewInstitution{
		Name: "University " + prefix, Prefix: prefix, OwnerEmail: prefix + "-owner@example.org", OwnerName: "Owner " + prefix,
	}, func(context.Context, *db.Tx, *account.Institution) error { return nil })
	if err != nil {
		t.Fatal(err)
	}
	c := &crew{inst, s, map[account.Role]*account.Member{}}
	for _, r := range account.Roles[1:] {
		if _, err := s.AddMember(t.Context(), inst.ID, account.NewMember{Email: prefix + "-" + string(r.Role) + "@example.org", Name: r.Name, Role: r.Role}); err != nil {
			t.Fatal(err)
		}
	}
	c.read(t)
	return c
}

func (c *crew) read(t *testing.T) {
	t.Helper()
	list, err := c.s.Members(t.Context(), c.ID)
	if err != nil {
		t.Fatal(err)
	}
	clear(c.of)
	for _, m := range list {
		c.of[m.Role] = &m
	}
}

// actions returns the actions in an institution's audit log, oldest first.
func actions(t *testing.T, d *db.DB, institutionID int64) (list []audit.Action) {
	t.Helper()
	entries, _, err := audit.New(d).List(t.Context(), institutionID, audit.Filter{}, "", audit.MaxPage)
	if err != nil {
		t.Fatal(err)
	}
	for _, e := range slices.Backward(entries) {
		list = append(list, e.Action)
	}
	return list
}

// A member of each role tries to change another member from each role to each role. Members without
// the permission also try to remove this member.
func TestPermissionToChangeMembers(t *testing.T) {
	t.Parallel()
	dbtest.Each(t, func(t *testing.T, d *db.DB) {
		c := newCrew(t, d, time.Now, "AAA")
		second, err := c.s.AddMember(t.Context(), c.ID, account.NewMember{Email: "second@example.org", Name: "Second", Role: account.Owner})
		if err != nil {
			t.Fatal(err)
		}
		target, err := c.s.AddMember(t.Context(), c.ID, account.NewMember{Email: "target@example.org", Name: "Target", Role: account.Issuer})
		if err != nil {
			t.Fatal(err)
		}
		c.of[account.Owner] = second
		for by, member := range c.of {
			for _, from := range account.Roles {
				for _, to := range account.Roles {
					if err := c.s.SetMember(t.Context(), account.Installation, c.ID, target.UUID, from.Role, false); err != nil {
						t.Fatal(err)
					}
					err := c.s.SetMember(t.Context(), member.UserID, c.ID, target.UUID, to.Role, false)
					owners := from.Role == account.Owner || to.Role == account.Owner
					if allowed := by == account.Owner || by == account.Admin && !owners; allowed != (err == nil) || !allowed && !fault.Is(err, fault.Forbidden) {
						t.Errorf("%s changes %s to %s: error = %v, want fault.Forbidden: %v", by, from.Role, to.Role, err, !allowed)
					}
				}
			}
			if by != account.Owner && by != account.Admin {
				if err := c.s.RemoveMember(t.Context(), member.UserID, c.ID, target.UUID); !fault.Is(err, fault.Forbidden) {
					t.Errorf("%s removes a member: error = %v, want fault.Forbidden", by, err)
				}
			}
		}
		if err := c.s.RemoveMember(t.Context(), c.of[account.Admin].UserID, c.ID, second.UUID); !fault.Is(err, fault.Forbidden) {
			t.Errorf("an admin removes an owner: error = %v, want fault.Forbidden", err)
		}
	})
}

func TestLastOwnerCannotBeRemoved(t *testing.T) {
	t.Parallel()
	dbtest.Each(t, func(t *testing.T, d *db.DB) {
		c := newCrew(t, d, time.Now, "AAA")
		owner := c.of[account.Owner]
		refused := func(what string, err error) {
			t.Helper()
			if !fault.Is(err, fault.Conflict) {
				t.Errorf("the last owner %s: error = %v, want fault.Conflict", what, err)
			}
		}
		before := len(actions(t, d, c.ID))
		refused("left", c.s.Leave(t.Context(), c.ID, owner.UserID))
		refused("removed themselves", c.s.RemoveMember(t.Context(), owner.UserID, c.ID, owner.UUID))
		refused("was removed", c.s.RemoveMember(t.Context(), account.Installation, c.ID, owner.UUID))
		refused("was demoted", c.s.SetMember(t.Context(), owner.UserID, c.ID, owner.UUID, account.Admin, false))
		refused("was deleted", d.Tx(t.Context(), func(tx *db.Tx) error { return c.s.LeaveAllTx(t.Context(), tx, owner.UserID) }))
		if after := len(actions(t, d, c.ID)); after != before {
			t.Errorf("%d refused changes were recorded, want 0", after-before)
		}
		if err := c.s.SetMember(t.Context(), owner.UserID, c.ID, owner.UUID, account.Owner, false); err != nil {
			t.Errorf("setting the role of the last owner to owner: error = %v, want none", err)
		}
		if err := c.s.SetMember(t.Context(), owner.UserID, c.ID, c.of[account.Admin].UUID, account.Owner, false); err != nil {
			t.Fatal(err)
		}
		if err := c.s.Leave(t.Context(), c.ID, owner.UserID); err != nil {
			t.Errorf("one of two owners leaves: error = %v, want none", err)
		}
		if _, err := c.s.Membership(t.Context(), owner.UserID, c.Slug); !fault.Is(err, fault.NotFound) {
			t.Errorf("Membership of the owner who left: error = %v, want fault.NotFound", err)
		}
	})
}

// Concurrent operations try to remove or demote all owners. One owner must remain.
func TestConcurrentRemovalOfOwners(t *testing.T) {
	t.Parallel()
	dbtest.Each(t, func(t *testing.T, d *db.DB) {
		for round := range 8 {
			c := newCrew(t, d, time.Now, fmt.Sprintf("R%d", round))
			owners := []*account.Member{c.of[account.Owner]}
			for i := range 3 {
				m, err := c.s.AddMember(t.Context(), c.ID, account.NewMember{Email: fmt.Sprintf("o%d-%d@example.org", round, i), Name: "O", Role: account.Owner})
				if err != nil {
					t.Fatal(err)
				}
				owners = append(owners, m)
			}
			var wg sync.WaitGroup
			start := make(chan struct{})
			errs := make([]error, len(owners))
			for i, o := range owners {
				wg.Go(func() {
					<-start
					switch i % 3 {
					case 0:
						errs[i] = c.s.Leave(t.Context(), c.ID, o.UserID)
					case 1:
						errs[i] = c.s.RemoveMember(t.Context(), account.Installation, c.ID, o.UUID)
					default:
						errs[i] = c.s.SetMember(t.Context(), o.UserID, c.ID, o.UUID, account.Issuer, false)
					}
				})
			}
			close(start)
			wg.Wait()
			refused := 0
			for _, err := range errs {
				if fault.Is(err, fault.Conflict) {
					refused++
				} else if err != nil {
					t.Error(err)
				}
			}
			list, err := c.s.Members(t.Context(), c.ID)
			if err != nil {
				t.Fatal(err)
			}
			left := 0
			for _, m := range list {
				if m.Role == account.Owner {
					left++
				}
			}
			if left != 1 || refused != 1 {
				t.Fatalf("%d owners remain and %d calls were refused, want 1 and 1", left, refused)
			}
		}
	})
}

// An owner of one institution can neither read nor change the members of another institution.
func TestMembersOfAnotherInstitution(t *testing.T) {
	t.Parallel()
	dbtest.Each(t, func(t *testing.T, d *db.DB) {
		mine, other := newCrew(t, d, time.Now, "AAA"), newCrew(t, d, time.Now, "BBB")
		member, target := mine.of[account.Owner], other.of[account.Issuer]
		for name, err := range map[string]error{
			"changing a member there":    mine.s.SetMember(t.Context(), member.UserID, other.ID, target.UUID, account.Admin, false),
			"removing a member there":    mine.s.RemoveMember(t.Context(), member.UserID, other.ID, target.UUID),
			"changing their member here": mine.s.SetMember(t.Context(), member.UserID, mine.ID, target.UUID, account.Admin, false),
			"removing their member here": mine.s.RemoveMember(t.Context(), member.UserID, mine.ID, target.UUID),
			"leaving their institution":  mine.s.Leave(t.Context(), other.ID, member.UserID),
		} {
			if !fault.Is(err, fault.NotFound) {
				t.Errorf("%s: error = %v, want fault.NotFound", name, err)
			}
		}
		if _, err := mine.s.Membership(t.Context(), member.UserID, other.Slug); !fault.Is(err, fault.NotFound) {
			t.Errorf("reading the membership of a user who is not a member: error = %v, want fault.NotFound", err)
		}
		// Now the owner is also a member of the other institution, with another role.
		if _, err := mine.s.AddMember(t.Context(), other.ID, account.NewMember{Email: "AAA-owner@EXAMPLE.org", Name: "x", Role: account.Auditor, ManageWebhooks: true}); err != nil {
			t.Fatal(err)
		}
		list, err := mine.s.Memberships(t.Context(), member.UserID)
		if err != nil || len(list) != 2 || list[0].Role != account.Owner || list[1].Role != account.Auditor || !list[1].Can(account.MayManageWebhooks) ||
			list[1].Can(account.MayUpload) || list[1].Institution.ID != other.ID {
			t.Errorf("Memberships = %+v, error %v, want an owner, and in the other institution an auditor with MayManageWebhooks", list, err)
		}
		m, err := mine.s.Membership(t.Context(), member.UserID, other.Slug)
		if err != nil || m.Role != account.Auditor || m.Institution.Name != "University BBB" || m.UserID != member.UserID {
			t.Errorf("Membership = %+v, error %v, want an auditor of University BBB", m, err)
		}
	})
}

func TestMemberChangesAreRecorded(t *testing.T) {
	t.Parallel()
	dbtest.Each(t, func(t *testing.T, d *db.DB) {
		c := newCrew(t, d, time.Now, "AAA")
		ctx := audit.WithActor(t.Context(), audit.Actor{Type: audit.User, ID: c.of[account.Owner].UUID, Name: "Owner AAA"})
		issuer := c.of[account.Issuer]
		for range 2 { // the second call changes nothing
			if err := c.s.SetMember(ctx, c.of[account.Owner].UserID, c.ID, issuer.UUID, account.Issuer, true); err != nil {
				t.Fatal(err)
			}
		}
		if err := c.s.RemoveMember(ctx, c.of[account.Owner].UserID, c.ID, issuer.UUID); err != nil {
			t.Fatal(err)
		}
		list, _, err := audit.New(d).List(t.Context(), c.ID, audit.Filter{Actor: "owner aaa"}, "", 10)
		if err != nil || len(list) != 2 || list[0].Action != audit.MemberRemoved || list[1].Action != audit.MemberChanged ||
			list[1].Subject.ID != issuer.UUID || fmt.Sprint(list[1].Detail) != "map[manage_webhooks:map[from:false to:true]]" {
			t.Errorf("the recorded entries are %+v, error %v, want one change and one removal of the issuer", list, err)
		}
	})
}

// isOperator reports whether a person is an operator.
func isOperator(t *testing.T, d *db.DB, userID int64) (is bool) {
	t.Helper()
	if err := d.QueryRowContext(t.Context(), `SELECT operator FROM users WHERE id = $1`, userID).Scan(&is); err != nil {
		t.Fatal(err)
	}
	return is
}

func TestOperators(t *testing.T) {
	t.Parallel()
	dbtest.Each(t, func(t *testing.T, d *db.DB) {
		c := newCrew(t, d, time.Now, "AAA")
		is := func() bool { return isOperator(t, d, c.of[account.Owner].UserID) }
		if is() {
			t.Error("a new owner is already an operator")
		}
		if err := c.s.SetOperator(t.Context(), "nobody@example.org", true); !fault.Is(err, fault.Invalid) {
			t.Errorf("making an unknown address an operator: error = %v, want fault.Invalid", err)
		}
		for range 2 {
			if err := c.s.SetOperator(t.Context(), "AAA-OWNER@example.org", true); err != nil {
				t.Fatal(err)
			}
		}
		list, err := c.s.Operators(t.Context())
		if err != nil || len(list) != 1 || list[0].Name != "Owner AAA" || !is() {
			t.Errorf("Operators = %+v, error %v, want Owner AAA", list, err)
		}
		if err := c.s.SetOperator(t.Context(), "aaa-owner@example.org", false); err != nil || is() {
			t.Errorf("after the removal: error = %v, is an operator = %v, want none and false", err, is())
		}
		if got := fmt.Sprint(actions(t, d, 0)); got != "[institution.created operator.added operator.removed]" {
			t.Errorf("the audit log has %s, want one entry each for the institution, the new operator and the removed operator", got)
		}
		counts, err := c.s.Institutions(t.Context())
		if err != nil || len(counts) != 1 || counts[0].Members != len(account.Roles) {
			t.Errorf("Institutions = %+v, error %v, want one with a member of each role", counts, err)
		}
	})
}

// Setup and CreateInstitution set a password only for a new account, because an existing account may
// belong to another person than the caller.
func TestPasswordIsSetOnlyForANewAccount(t *testing.T) {
	t.Parallel()
	dbtest.Each(t, func(t *testing.T, d *db.DB) {
		ctx := t.Context()
		s := account.New(d, time.Now, cheap)
		secret, err := s.NewSetupLink(ctx)
		if err != nil {
			t.Fatal(err)
		}
		hasPassword := func(id int64) (has bool) {
			t.Helper()
			if err := d.QueryRowContext(ctx, `SELECT password_hash IS NOT NULL FROM users WHERE id = $1`, id).Scan(&has); err != nil {
				t.Fatal(err)
			}
			return has
		}
		existing := person(t, d, "owner@example.org")
		inst, owner, err := s.Setup(ctx, secret, institution("First", "FST"))
		if err != nil {
			t.Fatal(err)
		}
		if owner != 0 || !inst.OwnerExisted || hasPassword(existing) {
			t.Errorf("set-up with an existing account: owner = %d, OwnerExisted = %v, has a password = %v, want 0, true, false", owner, inst.OwnerExisted, hasPassword(existing))
		}
		if inst, err = s.CreateInstitution(ctx, institution("Second", "SND")); err != nil || !inst.OwnerExisted || hasPassword(existing) {
			t.Errorf("an institution of an existing account: %+v, error %v, has a password = %v, want OwnerExisted and no password", inst, err, hasPassword(existing))
		}
		n := institution("Third", "THD")
		n.OwnerEmail = "new@example.org"
		if inst, err = s.CreateInstitution(ctx, n); err != nil || inst.OwnerExisted {
			t.Fatalf("an institution of a new account: %+v, error %v, want OwnerExisted = false", inst, err)
		}
		created, err := s.Members(ctx, inst.ID)
		if err != nil || len(created) != 1 || !hasPassword(created[0].UserID) {
			t.Errorf("the members are %+v, error %v, want one with a password", created, err)
		}
	})
}

// A further address grants its account no rights, because the mailbox may belong to another person by now.
func TestFurtherAddressGrantsNoRights(t *testing.T) {
	t.Parallel()
	dbtest.Each(t, func(t *testing.T, d *db.DB) {
		ctx := t.Context()
		c := newCrew(t, d, time.Now, "AAA")
		former := person(t, d, "former.dean@home.example")
		if err := d.Tx(ctx, func(tx *db.Tx) error {
			_, err := account.AddAddressTx(ctx, tx, former, account.Email{Text: "Dean@nwu.example", Folded: "dean@nwu.example"}, time.Now())
			return err
		}); err != nil {
			t.Fatal(err)
		}
		secret, err := c.s.NewSetupLink(ctx)
		if err != nil {
			t.Fatal(err)
		}
		n := institution("Second", "SND")
		n.OwnerEmail = "DEAN@nwu.example"
		_, _, setUp := c.s.Setup(ctx, secret, n)
		_, created := c.s.CreateInstitution(ctx, n)
		_, opened := c.s.OpenInstitution(ctx, n, func(context.Context, *db.Tx, *account.Institution) error { return nil })
		_, added := c.s.AddMember(ctx, c.ID, account.NewMember{Email: n.OwnerEmail, Name: "New Dean", Role: account.Admin})
		for what, tc := range map[string]struct {
			field string
			err   error
		}{"Setup": {"owner_email", setUp}, "CreateInstitution": {"owner_email", created}, "OpenInstitution": {"owner_email", opened}, "AddMember": {"email", added}} {
			e, ok := errors.AsType[*fault.Error](tc.err)
			if !ok || e.Kind != fault.Invalid || len(e.Fields) != 1 || e.Fields[0].Name != tc.field || strings.Contains(fmt.Sprint(e.Fields), "home.example") {
				t.Errorf("%s with a further address: error = %v, want fault.Invalid for the field %s, without the main address", what, tc.err, tc.field)
			}
		}
		list, err := c.s.Memberships(ctx, former)
		if err != nil || len(list) != 0 || isOperator(t, d, former) {
			t.Errorf("the memberships are %+v, error %v, is an operator = %v, want none and false", list, err, isOperator(t, d, former))
		}
		if works, err := c.s.SetupLinkWorks(ctx, secret); err != nil || !works {
			t.Errorf("the set-up link works after a refused set-up: %v, error %v, want true", works, err)
		}
		// The main address and an address that was removed from the account can be used.
		if err := d.Tx(ctx, func(tx *db.Tx) error {
			_, err := account.RemoveAddressTx(ctx, tx, former, "dean@nwu.example")
			return err
		}); err != nil {
			t.Fatal(err)
		}
		if m, err := c.s.AddMember(ctx, c.ID, account.NewMember{Email: n.OwnerEmail, Name: "New Dean", Role: account.Admin}); err != nil || m.UserID == former {
			t.Errorf("the new dean is %+v, error %v, want another account than that of the former dean", m, err)
		}
		if m, err := c.s.AddMember(ctx, c.ID, account.NewMember{Email: "former.dean@home.example", Name: "x", Role: account.Auditor}); err != nil || m.UserID != former {
			t.Errorf("the member with the main address is %+v, error %v, want the former dean", m, err)
		}
	})
}

// Only one of several concurrent calls with a set-up link succeeds.
func TestSetupLinkIsUsedOnce(t *testing.T) {
	t.Parallel()
	dbtest.Each(t, func(t *testing.T, d *db.DB) {
		s := account.New(d, time.Now, cheap)
		secret, err := s.NewSetupLink(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		if _, _, err := s.Setup(t.Context(), "guess", institution("First", "FST")); !fault.Is(err, fault.NotFound) {
			t.Errorf("set-up with an unknown secret: error = %v, want fault.NotFound", err)
		}
		if _, _, err := s.Setup(t.Context(), secret, account.NewInstitution{}); !fault.Is(err, fault.Invalid) {
			t.Errorf("set-up with an empty form: error = %v, want fault.Invalid", err)
		}
		var wg sync.WaitGroup
		errs, owners := make([]error, 3), make([]int64, 3)
		for i := range errs {
			wg.Go(func() {
				_, owners[i], errs[i] = s.Setup(t.Context(), secret, institution("First", fmt.Sprint("FST", i)))
			})
		}
		wg.Wait()
		won := 0
		for i, err := range errs {
			if err == nil {
				won++
				if !isOperator(t, d, owners[i]) {
					t.Error("the first owner is not an operator")
				}
			} else if !fault.Is(err, fault.NotFound) {
				t.Error(err)
			}
		}
		if list, err := s.Institutions(t.Context()); won != 1 || len(list) != 1 || err != nil {
			t.Errorf("%d calls succeeded and there are %d institutions, want 1 and 1; error %v", won, len(list), err)
		}
	})
}
