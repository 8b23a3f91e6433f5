package account_test

import (
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/certvault/certvault/internal/account"
	"github.com/certvault/certvault/internal/db"
	"github.com/certvault/certvault/internal/db/dbtest"
	"github.com/certvault/certvault/internal/fault"
)

// ofName reports whether an error is fault.Invalid with the field "name" only.
func ofName(err error) bool {
	e, ok := errors.AsType[*fault.Error](err)
	return ok && e.Kind == fault.Invalid && len(e.Fields) == 1 && e.Fields[0].Name == "name"
}

func TestInstitutionCannotHaveTheNameOfAnotherInstitution(t *testing.T) {
	t.Parallel()
	dbtest.Each(t, func(t *testing.T, d *db.DB) {
		ctx := t.Context()
		s := account.New(d, time.Now, cheap)
		first, err := s.CreateInstitution(ctx, institution("Northwind University", "NWU"))
		if err != nil {
			t.Fatal(err)
		}
		second, err := s.CreateInstitution(ctx, institution("Other College", "OTH"))
		if err != nil {
			t.Fatal(err)
		}
		rename := func(id int64, name string, consent bool) error {
			_, err := s.Change(ctx, id, func(c *account.Changes) error {
				c.Name, c.AllowSameName = name, consent
				return nil
			})
			return err
		}
		for what, name := range map[string]string{
			"the same name":         "Northwind University",
			"another case":          "NORTHWIND university",
			"two spaces":            "Northwind  University",
			"a space of no break":   "Northwind\u00a0University",
			"a Cyrillic letter":     "N\u043erthwind University",
			"full-width letters":    "\uff2e\uff4frthwind University",
			"mathematical letters":  "\U0001d40dorthwind University",
			"case and another font": "\U0001d427ORTHWIND UNIVERSITY",
		} {
			if err := rename(second.ID, name, false); !ofName(err) || !errors.Is(err, account.ErrSameName) || !strings.Contains(err.Error(), "NWU") {
				t.Errorf("%s: error = %v, want ErrSameName with the prefix NWU", what, err)
			}
			n := institution(name, "NEW")
			if _, err := s.CreateInstitution(ctx, n); !ofName(err) {
				t.Errorf("%s: error of a new institution = %v, want one about the name", what, err)
			}
		}
		if err := rename(second.ID, "Northwest University", false); err != nil {
			t.Errorf("a similar name that does not look the same: error = %v, want none", err)
		}
		if err := rename(first.ID, "NORTHWIND University", false); err != nil {
			t.Errorf("an institution changes the case of its own name: error = %v, want none", err)
		}
		if err := rename(second.ID, "Northwind University", true); err != nil {
			t.Errorf("an operator allows the name: error = %v, want none", err)
		}
		n := institution("Northwind University", "NEW")
		n.AllowSameName = true
		third, err := s.CreateInstitution(ctx, n)
		if err != nil {
			t.Errorf("an operator allows the name of a new institution: error = %v, want none", err)
		}
		if list, err := account.NameConflicts(ctx, d); err != nil || len(list) != 0 {
			t.Errorf("NameConflicts = %v, error %v, want none", list, err)
		}
		for _, i := range []*account.Institution{first, second, third} {
			if err := s.CheckKeyName(ctx, i.ID); err != nil {
				t.Errorf("CheckKeyName of %s: error = %v, want none", i.Prefix, err)
			}
		}
		// The consent is for one name. It ends when the institution gets another name.
		if err := rename(second.ID, "Other College", false); err != nil {
			t.Fatal(err)
		}
		if err := rename(second.ID, "Northwind University", false); !ofName(err) {
			t.Errorf("setting the allowed name again without consent: error = %v, want one about the name", err)
		}
	})
}

// Only one of several institutions gets a name that they set concurrently.
func TestConcurrentRenamingsToOneName(t *testing.T) {
	t.Parallel()
	dbtest.Each(t, func(t *testing.T, d *db.DB) {
		s := account.New(d, time.Now, cheap)
		errs := make(chan error)
		for _, prefix := range []string{"AAA", "BBB", "CCC"} {
			i, err := s.CreateInstitution(t.Context(), institution("Institution "+prefix, prefix))
			if err != nil {
				t.Fatal(err)
			}
			go func() { errs <- s.SetName(t.Context(), i.ID, "Northwind University") }()
		}
		refused := 0
		for range 3 {
			if err := <-errs; ofName(err) {
				refused++
			} else if err != nil {
				t.Error(err)
			}
		}
		if refused != 2 {
			t.Errorf("%d renamings were refused, want 2", refused)
		}
	})
}

func TestNameWithHiddenCharacterIsRefused(t *testing.T) {
	t.Parallel()
	s := account.New(dbtest.SQLite(t), time.Now, cheap)
	i, err := s.CreateInstitution(t.Context(), institution("One", "ONE"))
	if err != nil {
		t.Fatal(err)
	}
	for _, hidden := range []string{
		"\x00", "\n", "\t", "\x1b", "\u0085", "\u200b", "\u200c", "\u200d", "\u2060", "\ufeff", "\u00ad", "\u202a", "\u202e", "\u2066", "\u2069", "\u200e", "\u061c",
		"\u2028", "\u034f", "\u115f", "\u3164", "\uffa0", "\u180e", "\ufe0f", "\u2800", "\U000e0041",
	} {
		name := "North" + hidden + "wind"
		if err := s.SetName(t.Context(), i.ID, name); !ofName(err) {
			t.Errorf("%+q: error = %v, want one about the name", name, err)
		}
		if _, err := s.CreateInstitution(t.Context(), institution(name, "TWO")); !ofName(err) {
			t.Errorf("%+q: error of a new institution = %v, want one about the name", name, err)
		}
	}
	for _, name := range []string{"جامعة الخرطوم", "विश्वविद्यालय दिल्ली", "北京大学", "Lyce\u0301e d’Été", "St. John's & Co. — 2"} {
		if err := s.SetName(t.Context(), i.ID, name); err != nil {
			t.Errorf("setting the name %q: error = %v, want none", name, err)
		}
	}
}

// TestKeyNameNeedsConsentIfItLooksTheSame sets one name for two institutions directly in the database,
// because SetName would refuse it. Earlier versions did not check names.
func TestKeyNameNeedsConsentIfItLooksTheSame(t *testing.T) {
	t.Parallel()
	dbtest.Each(t, func(t *testing.T, d *db.DB) {
		ctx := t.Context()
		s := account.New(d, time.Now, cheap)
		var list []*account.Institution
		for _, prefix := range []string{"AAA", "BBB", "CCC"} {
			i, err := s.CreateInstitution(ctx, institution("Institution "+prefix, prefix))
			if err != nil {
				t.Fatal(err)
			}
			list = append(list, i)
		}
		if err := d.Tx(ctx, func(tx *db.Tx) error {
			_, err := tx.ExecContext(ctx, `UPDATE institutions SET name = 'Northwind University' WHERE id IN ($1, $2)`, list[0].ID, list[1].ID)
			return err
		}); err != nil {
			t.Fatal(err)
		}
		for i, refused := range []bool{true, true, false} {
			if err := s.CheckKeyName(ctx, list[i].ID); fault.Is(err, fault.Conflict) != refused {
				t.Errorf("CheckKeyName of %s: error = %v, want fault.Conflict: %v", list[i].Prefix, err, refused)
			}
		}
		if got, err := account.NameConflicts(ctx, d); err != nil || strings.Join(got, " ") != "AAA BBB" {
			t.Errorf("NameConflicts = %v, error %v, want AAA and BBB", got, err)
		}
		// Other settings can still be changed.
		if err := s.SetColour(ctx, list[1].ID, "#0b5d4b"); err != nil {
			t.Error(err)
		}
		if _, err := s.Change(ctx, list[0].ID, func(c *account.Changes) error {
			c.AllowSameName = true
			return nil
		}); err != nil {
			t.Fatal(err)
		}
		for _, i := range list {
			if err := s.CheckKeyName(ctx, i.ID); err != nil {
				t.Errorf("CheckKeyName of %s after the consent: error = %v, want none", i.Prefix, err)
			}
		}
	})
}

func TestOperatorsAreNotifiedOfRenamings(t *testing.T) {
	t.Parallel()
	dbtest.Each(t, func(t *testing.T, d *db.DB) {
		p, c := newOutbox(t, d)
		ctx := t.Context()
		for _, m := range []*account.Member{c.of[account.Admin], c.of[account.Auditor]} {
			if err := c.s.SetOperator(ctx, m.Email, true); err != nil {
				t.Fatal(err)
			}
		}
		if err := d.Tx(ctx, func(tx *db.Tx) error { return account.SetUserLanguageTx(ctx, tx, c.of[account.Auditor].UserID, "de") }); err != nil {
			t.Fatal(err)
		}
		if err := c.s.SetColour(ctx, c.ID, "#0b5d4b"); err != nil || len(p.sent) != 0 {
			t.Errorf("a change of the colour: error %v, %d messages, want none", err, len(p.sent))
		}
		if err := c.s.SetName(ctx, c.ID, "New College"); err != nil {
			t.Fatal(err)
		}
		if len(p.sent) != 2 {
			t.Fatalf("%d messages were sent, want 2", len(p.sent))
		}
		for i, want := range []string{"It is now “New College”.", "Sie heißt jetzt „New College“."} {
			for _, text := range []string{want, "University AAA", "AAA", "https://vault.example.org/operator/institutions"} {
				if !strings.Contains(p.sent[i].Text, text) {
					t.Errorf("message %d does not contain %q:\n%s", i, text, p.sent[i].Text)
				}
			}
		}
	})
}
