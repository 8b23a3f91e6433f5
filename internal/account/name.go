package account

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"slices"
	"strings"
	"unicode"
	"unicode/utf8"

	"go.mau.fi/util/confusable"
	"golang.org/x/text/cases"

	"github.com/certvault/certvault/internal/audit"
	"github.com/certvault/certvault/internal/db"
	"github.com/certvault/certvault/internal/fault"
)

// People recognize an issuer by the name on public pages and in signatures. Therefore the names of
// two institutions must not look the same, unless an operator of the installation has allowed it.

// blank is BRAILLE PATTERN BLANK. It is a symbol, but it looks like a space.
const blank = '\u2800'

// isHidden reports whether a name must not have a character because the character is invisible, such
// as a control character, a mark that changes the direction of text, a character without width, or a
// line separator. Spaces are allowed.
func isHidden(r rune) bool {
	return !unicode.IsGraphic(r) || r == blank || unicode.In(r, unicode.Other_Default_Ignorable_Code_Point, unicode.Variation_Selector)
}

// HiddenInName is the problem with a name that contains an invisible character.
const HiddenInName = "The name has an invisible character, such as a control character, a text direction mark or a zero-width space. Type the name again."

// checkInstitutionName returns the problem with a name, or "".
func checkInstitutionName(name string) string {
	switch n := utf8.RuneCountInString(name); {
	case n < 1 || n > maxName:
		return fmt.Sprintf("The name must have 1 to %d characters.", maxName)
	case !CleanText(name), strings.ContainsFunc(name, isHidden):
		return HiddenInName
	}
	return ""
}

// lookalike contains two skeletons (UTS #39, 4): one of the name as it is written, and one of the
// name after case folding. Two names look the same if they have the same skeleton as written, or the
// same skeleton after folding. Both are needed, because folding changes what a letter looks like: I
// looks like l, but i does not.
type lookalike struct{ exact, folded string }

func lookalikeOf(name string) lookalike {
	name = strings.Join(strings.Fields(name), " ")
	return lookalike{confusable.Skeleton(name), confusable.Skeleton(cases.Fold().String(name))}
}

// like reports whether two names look the same.
func (a lookalike) like(b lookalike) bool { return a.exact == b.exact || a.folded == b.folded }

// namedInstitution has the name of an institution, and whether an operator has allowed the name.
type namedInstitution struct {
	id           int64
	name, prefix string
	allowed      bool
	look         lookalike
}

// names returns the names of all institutions, oldest first.
func names(ctx context.Context, q db.Queryer) ([]namedInstitution, error) {
	rows, err := q.QueryContext(ctx, `SELECT id, name, prefix, name_allowed IS NOT NULL AND name_allowed = name FROM institutions ORDER BY id`)
	if err != nil {
		return nil, fmt.Errorf("reading the names of institutions: %w", err)
	}
	list, err := db.Collect(rows, func(rows *sql.Rows) (n namedInstitution, err error) {
		err = rows.Scan(&n.id, &n.name, &n.prefix, &n.allowed)
		n.look = lookalikeOf(n.name)
		return n, err
	})
	if err != nil {
		return nil, fmt.Errorf("reading the names of institutions: %w", err)
	}
	return list, nil
}

// nameLock is the key of the PostgreSQL lock that lets only one transaction at a time set the name
// of an institution: "cvnm" in ASCII. Without the lock, two concurrent transactions could set the same
// name, because neither sees the changes of the other. In SQLite, transactions that write run one after
// another.
const nameLock = 0x63766e6d

// ErrSameName means that a name looks the same as the name of another institution.
var ErrSameName = errors.New("the name looks the same as the name of another institution")

// allowNameTx checks that an institution may have a name. id is 0 for a new institution. If the name
// looks the same as the name of another institution, allowNameTx returns fault.Invalid, or the prefix of
// the other institution if consent is true.
func allowNameTx(ctx context.Context, tx *db.Tx, id int64, name string, consent bool) (like string, err error) {
	if tx.Dialect() == db.PostgreSQL {
		if _, err := tx.ExecContext(ctx, `SELECT pg_advisory_xact_lock($1)`, nameLock); err != nil {
			return "", fmt.Errorf("locking the names of institutions: %w", err)
		}
	}
	list, err := names(ctx, tx)
	if err != nil {
		return "", err
	}
	look := lookalikeOf(name)
	for _, n := range list {
		switch {
		case n.id == id || !look.like(n.look):
		case consent:
			return n.prefix, nil
		default:
			refused := fault.OfField("name", "The name looks the same as the name of another institution of this vault, with the prefix "+n.prefix+
				". Only an operator of the vault can allow that.")
			refused.Err = ErrSameName
			return "", refused
		}
	}
	return "", nil
}

// recordNameTx stores that an operator has allowed a name although it looks like the name of another
// institution, whose prefix is the parameter like. If this is "", the name needs no consent, and recordNameTx
// deletes an earlier consent.
func recordNameTx(ctx context.Context, tx *db.Tx, id int64, name, like string) error {
	var allowed any
	if like != "" {
		allowed = name
	}
	if _, err := tx.ExecContext(ctx, `UPDATE institutions SET name_allowed = $1 WHERE id = $2`, allowed, id); err != nil {
		return fmt.Errorf("recording the consent to a name: %w", err)
	}
	if like == "" {
		return nil
	}
	return audit.RecordTx(ctx, tx, audit.Entry{InstitutionID: id, Action: audit.InstitutionChanged, Detail: audit.Detail{"same_name_allowed": name, "as_prefix": like}})
}

// conflict returns the first institution whose name looks the same as the name of n, if no operator
// has allowed either of the names.
func conflict(n namedInstitution, list []namedInstitution) (other namedInstitution, found bool) {
	if n.allowed {
		return other, false
	}
	i := slices.IndexFunc(list, func(o namedInstitution) bool { return o.id != n.id && !o.allowed && o.look.like(n.look) })
	if i < 0 {
		return other, false
	}
	return list[i], true
}

// CheckKeyName returns fault.Conflict if the name of an institution looks the same as the name of
// another institution, and no operator has allowed either name. A new signing key would contain this
// name. Two institutions can have such names if earlier versions, which did not check names, set them.
func (s *Service) CheckKeyName(ctx context.Context, id int64) error {
	list, err := names(ctx, s.db)
	if err != nil {
		return err
	}
	for _, n := range list {
		if other, found := conflict(n, list); found && n.id == id {
			return fault.New(fault.Conflict, "The name “"+n.name+"” looks the same as the name of the institution with the prefix "+other.prefix+
				", so no signing key can be created with it. An operator of the vault can allow the name or change it.")
		}
	}
	return nil
}

// NameConflicts returns the prefixes of the institutions whose names look the same and were not
// allowed by an operator. The oldest institution is first.
func NameConflicts(ctx context.Context, q db.Queryer) (prefixes []string, err error) {
	list, err := names(ctx, q)
	if err != nil {
		return nil, err
	}
	for _, n := range list {
		if _, found := conflict(n, list); found {
			prefixes = append(prefixes, n.prefix)
		}
	}
	return prefixes, nil
}

// Renaming is a change of the name of an institution.
type Renaming struct {
	Prefix, Before, After string
}

// renameTx checks the name of an institution and records the consent of an operator. If the name
// has changed, renameTx notifies the operators.
func (s *Service) renameTx(ctx context.Context, tx *db.Tx, id int64, before string, c *Changes) error {
	like, err := allowNameTx(ctx, tx, id, c.Name, c.AllowSameName)
	if err != nil {
		return err
	}
	if err := recordNameTx(ctx, tx, id, c.Name, like); err != nil {
		return err
	}
	if s.renamed == nil || c.Name == before {
		return nil
	}
	i, err := InstitutionByID(ctx, tx, id)
	if err != nil {
		return err
	}
	return s.renamed(ctx, tx, Renaming{Prefix: i.Prefix, Before: before, After: c.Name})
}
