package account_test

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/certvault/certvault/internal/account"
	"github.com/certvault/certvault/internal/audit"
	"github.com/certvault/certvault/internal/db"
	"github.com/certvault/certvault/internal/db/dbtest"
	"github.com/certvault/certvault/internal/fault"
)

// crew is an institution with a member of each role, by their role.
type crew struct {
	*account.Institution

	s  *account.Service
	of map[account.Role]*account.Member
}

// man creates an institution whose members' addresses begin with its prefix.
func man(t *testing.T, d *db.DB, now func() time.Time, prefix string) *crew {
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

// Each role tries to change each role into each role, and to remove it.
func TestWhoMayChangeWhom(t *testing.T) {
	t.Parallel()
	dbtest.Each(t, func(t *testing.T, d *db.DB) {
		c := man(t, d, time.Now, "AAA")
		second, err := c.s.AddMember(t.Context(), c.ID, account.NewMember{Email: "second@example.org", Name: "Second", Role: account.Owner})
		if err != nil {
			t.Fatal(err)
		}
		target, err := c.s.AddMember(t.Context(), c.ID, account.NewMember{Email: "target@example.org", Name: "Target", Role: account.Issuer})
		if err != nil {
			t.Fatal(err)
		}
		c.of[account.Owner] = second
		for by, hand := range c.of {
			for _, from := range account.Roles {
				for _, to := range account.Roles {
					if err := c.s.SetMember(t.Context(), account.Installation, c.ID, target.UUID, from.Role, false); err != nil {
						t.Fatal(err)
					}
					err := c.s.SetMember(t.Context(), hand.UserID, c.ID, target.UUID, to.Role, false)
					owners := from.Role == account.Owner || to.Role == account.Owner
					if allowed := by == account.Owner || by == account.Admin && !owners; allowed != (err == nil) || !allowed && !fault.Is(err, fault.Forbidden) {
						t.Errorf("%s makes %s %s: %v", by, from.Role, to.Role, err)
					}
				}
			}
			if by != account.Owner && by != account.Admin {
				if err := c.s.RemoveMember(t.Context(), hand.UserID, c.ID, target.UUID); !fault.Is(err, fault.Forbidden) {
					t.Errorf("%s removes a member: %v", by, err)
				}
			}
		}
		if err := c.s.RemoveMember(t.Context(), c.of[account.Admin].UserID, c.ID, second.UUID); !fault.Is(err, fault.Forbidden) {
			t.Errorf("an admin removes an owner: %v", err)
		}
	})
}

func TestLastOwnerStays(t *testing.T) {
	t.Parallel()
	dbtest.Each(t, func(t *testing.T, d *db.DB) {
		c := man(t, d, time.Now, "AAA")
		owner := c.of[account.Owner]
		refused := func(what string, err error) {
			t.Helper()
			if !fault.Is(err, fault.Conflict) {
				t.Errorf("the last owner %s: %v", what, err)
			}
		}
		before := len(actions(t, d, c.ID))
		refused("left", c.s.Leave(t.Context(), c.ID, owner.UserID))
		refused("removed themselves", c.s.RemoveMember(t.Context(), owner.UserID, c.ID, owner.UUID))
		refused("was removed", c.s.RemoveMember(t.Context(), account.Installation, c.ID, owner.UUID))
		refused("was demoted", c.s.SetMember(t.Context(), owner.UserID, c.ID, owner.UUID, account.Admin, false))
		refused("was deleted", d.Tx(t.Context(), func(tx *db.Tx) error { return c.s.LeaveAllTx(t.Context(), tx, owner.UserID) }))
		if after := len(actions(t, d, c.ID)); after != before {
			t.Errorf("%d deeds were recorded that were none", after-before)
		}
		if err := c.s.SetMember(t.Context(), owner.UserID, c.ID, owner.UUID, account.Owner, false); err != nil {
			t.Errorf("an owner stays owner: %v", err)
		}
		if err := c.s.SetMember(t.Context(), owner.UserID, c.ID, c.of[account.Admin].UUID, account.Owner, false); err != nil {
			t.Fatal(err)
		}
		if err := c.s.Leave(t.Context(), c.ID, owner.UserID); err != nil {
			t.Errorf("one of two owners cannot leave: %v", err)
		}
		if _, err := c.s.Membership(t.Context(), owner.UserID, c.Slug); !fault.Is(err, fault.NotFound) {
			t.Errorf("who left is still there: %v", err)
		}
	})
}

// Several owners leave concurrently, by different operations. One must remain.
func TestOwnersWhoGoAtOnce(t *testing.T) {
	t.Parallel()
	dbtest.Each(t, func(t *testing.T, d *db.DB) {
		for round := range 8 {
			c := man(t, d, time.Now, fmt.Sprintf("R%d", round))
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
				t.Fatalf("%d owners are left, %d were refused", left, refused)
			}
		}
	})
}

// Members of another institution can neither read nor change an institution's data.
func TestMembersOfAnotherInstitution(t *testing.T) {
	t.Parallel()
	dbtest.Each(t, func(t *testing.T, d *db.DB) {
		mine, other := man(t, d, time.Now, "AAA"), man(t, d, time.Now, "BBB")
		hand, victim := mine.of[account.Owner], other.of[account.Issuer]
		for name, err := range map[string]error{
			"changes there":     mine.s.SetMember(t.Context(), hand.UserID, other.ID, victim.UUID, account.Admin, false),
			"removes there":     mine.s.RemoveMember(t.Context(), hand.UserID, other.ID, victim.UUID),
			"changes from here": mine.s.SetMember(t.Context(), hand.UserID, mine.ID, victim.UUID, account.Admin, false),
			"removes from here": mine.s.RemoveMember(t.Context(), hand.UserID, mine.ID, victim.UUID),
			"leaves there":      mine.s.Leave(t.Context(), other.ID, hand.UserID),
		} {
			if !fault.Is(err, fault.NotFound) {
				t.Errorf("%s: %v", name, err)
			}
		}
		if _, err := mine.s.Membership(t.Context(), hand.UserID, other.Slug); !fault.Is(err, fault.NotFound) {
			t.Errorf("a membership that there is not: %v", err)
		}
		// The person belongs to both institutions, with different roles.
		if _, err := mine.s.AddMember(t.Context(), other.ID, account.NewMember{Email: "AAA-owner@EXAMPLE.org", Name: "x", Role: account.Auditor, ManageWebhooks: true}); err != nil {
			t.Fatal(err)
		}
		list, err := mine.s.Memberships(t.Context(), hand.UserID)
		if err != nil || len(list) != 2 || list[0].Role != account.Owner || list[1].Role != account.Auditor || !list[1].Can(account.MayManageWebhooks) ||
			list[1].Can(account.MayUpload) || list[1].Institution.ID != other.ID {
			t.Errorf("%+v, %v", list, err)
		}
		m, err := mine.s.Membership(t.Context(), hand.UserID, other.Slug)
		if err != nil || m.Role != account.Auditor || m.Institution.Name != "University BBB" || m.UserID != hand.UserID {
			t.Errorf("%+v, %v", m, err)
		}
	})
}

func TestMembersAreRecorded(t *testing.T) {
	t.Parallel()
	dbtest.Each(t, func(t *testing.T, d *db.DB) {
		c := man(t, d, time.Now, "AAA")
		ctx := audit.WithActor(t.Context(), audit.Actor{Type: audit.User, ID: c.of[account.Owner].UUID, Name: "Owner AAA"})
		issuer := c.of[account.Issuer]
		for range 2 { // the second changes nothing
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
			t.Errorf("%+v, %v", list, err)
		}
	})
}

// operates reports whether a person is an operator.
func operates(t *testing.T, d *db.DB, userID int64) (is bool) {
	t.Helper()
	if err := d.QueryRowContext(t.Context(), `SELECT operator FROM users WHERE id = $1`, userID).Scan(&is); err != nil {
		t.Fatal(err)
	}
	return is
}

func TestOperators(t *testing.T) {
	t.Parallel()
	dbtest.Each(t, func(t *testing.T, d *db.DB) {
		c := man(t, d, time.Now, "AAA")
		is := func() bool { return operates(t, d, c.of[account.Owner].UserID) }
		if is() {
			t.Error("an owner is an operator by that alone")
		}
		if err := c.s.SetOperator(t.Context(), "nobody@example.org", true); !fault.Is(err, fault.Invalid) {
			t.Errorf("an unknown address: %v", err)
		}
		for range 2 {
			if err := c.s.SetOperator(t.Context(), "AAA-OWNER@example.org", true); err != nil {
				t.Fatal(err)
			}
		}
		list, err := c.s.Operators(t.Context())
		if err != nil || len(list) != 1 || list[0].Name != "Owner AAA" || !is() {
			t.Errorf("%+v, %v", list, err)
		}
		if err := c.s.SetOperator(t.Context(), "aaa-owner@example.org", false); err != nil || is() {
			t.Errorf("still an operator: %v", err)
		}
		if got := fmt.Sprint(actions(t, d, 0)); got != "[institution.created operator.added operator.removed]" {
			t.Error(got)
		}
		counts, err := c.s.Institutions(t.Context())
		if err != nil || len(counts) != 1 || counts[0].Members != len(account.Roles) {
			t.Errorf("%+v, %v", counts, err)
		}
	})
}

// Of many concurrent uses of the link one succeeds. The link then stops working.
func TestSetupOnce(t *testing.T) {
	t.Parallel()
	dbtest.Each(t, func(t *testing.T, d *db.DB) {
		s := account.New(d, time.Now, cheap)
		secret, err := s.NewSetupLink(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		if _, _, err := s.Setup(t.Context(), "guess", institution("First", "FST")); !fault.Is(err, fault.NotFound) {
			t.Errorf("any secret sets up: %v", err)
		}
		if _, _, err := s.Setup(t.Context(), secret, account.NewInstitution{}); !fault.Is(err, fault.Invalid) {
			t.Errorf("an empty form: %v", err)
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
				if !operates(t, d, owners[i]) {
					t.Error("the first owner does not run the installation")
				}
			} else if !fault.Is(err, fault.NotFound) {
				t.Error(err)
			}
		}
		if list, err := s.Institutions(t.Context()); won != 1 || len(list) != 1 || err != nil {
			t.Errorf("%d set it up, %d institutions, %v", won, len(list), err)
		}
	})
}
