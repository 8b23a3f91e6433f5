package account

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"unicode/utf8"

	"github.com/certvault/certvault/internal/audit"
	"github.com/certvault/certvault/internal/db"
	"github.com/certvault/certvault/internal/fault"
)

// An operator can disable an institution. The vault then rejects requests with its tokens, requests of
// its members to the panel, and new applications. Public pages, recipients' pages, the processing of
// earlier uploads, mail and webhooks continue.

// maxReason is the maximum length of the reason for disabling an institution, in characters.
const maxReason = 500

// CheckEnabled returns fault.Forbidden if the institution is disabled. The message contains the reason.
// Each interface that acts for an institution must call CheckEnabled where it identifies the client.
func (i *Institution) CheckEnabled() error {
	if i.DisabledAt == nil {
		return nil
	}
	text := "The institution “" + i.Name + "” is disabled"
	if i.DisabledReason != "" {
		text += ": " + strings.TrimRight(i.DisabledReason, ".")
	}
	return fault.New(fault.Forbidden, text+". Ask the operator of this vault to enable it.")
}

// CheckEnabled reads the state of an institution, and returns fault.Forbidden if it is disabled.
func CheckEnabled(ctx context.Context, q db.Queryer, institutionID int64) error {
	i, err := InstitutionByID(ctx, q, institutionID)
	if err != nil {
		return err
	}
	return i.CheckEnabled()
}

// Disable disables an institution. The reason, which may be empty, is shown to the members and
// programs of the institution. An institution that is already disabled gets the new reason. The error
// is fault.Invalid if the reason is too long or not valid text, and fault.NotFound if there is no such
// institution.
func (s *Service) Disable(ctx context.Context, id int64, reason string) error {
	reason = strings.Join(strings.Fields(reason), " ")
	if utf8.RuneCountInString(reason) > maxReason || reason != "" && !CleanText(reason) {
		return fault.OfField("reason", fmt.Sprintf("The reason must be text of at most %d characters.", maxReason))
	}
	return s.operate(ctx, id, "disabling an institution", func(tx *db.Tx, i *Institution) (*audit.Entry, error) {
		at := s.now()
		if i.DisabledAt != nil && i.DisabledReason == reason {
			return nil, nil // nothing changes
		}
		entry := &audit.Entry{Action: audit.InstitutionDisabled}
		if reason != "" {
			entry.Detail = audit.Detail{"reason": reason}
		}
		_, err := tx.ExecContext(ctx, `UPDATE institutions SET disabled_at = coalesce(disabled_at, $2), disabled_reason = $3 WHERE id = $1`, id, db.Micros(at), reason)
		return entry, err
	})
}

// Enable enables a disabled institution. The error is fault.NotFound if there is no such institution.
func (s *Service) Enable(ctx context.Context, id int64) error {
	return s.operate(ctx, id, "enabling an institution", func(tx *db.Tx, i *Institution) (*audit.Entry, error) {
		if i.DisabledAt == nil {
			return nil, nil // nothing changes
		}
		_, err := tx.ExecContext(ctx, `UPDATE institutions SET disabled_at = NULL, disabled_reason = '' WHERE id = $1`, id)
		return &audit.Entry{Action: audit.InstitutionEnabled}, err
	})
}

// operate changes an institution for an operator. If f returns an entry, operate records it in the
// institution's audit log, for its auditors, and in the log of the installation, for the operators.
func (s *Service) operate(ctx context.Context, id int64, what string, f func(tx *db.Tx, i *Institution) (*audit.Entry, error)) error {
	err := s.db.Tx(ctx, func(tx *db.Tx) error {
		if err := lockMembersTx(ctx, tx, id); err != nil {
			return err
		}
		i, err := InstitutionByID(ctx, tx, id)
		if err != nil {
			return err
		}
		entry, err := f(tx, i)
		if err != nil || entry == nil {
			return err
		}
		entry.At, entry.Subject = s.now(), audit.Subject{Type: "institution", ID: i.UUID, Name: i.Name}
		installation := *entry
		entry.InstitutionID = id
		return errors.Join(audit.RecordTx(ctx, tx, *entry), audit.RecordTx(ctx, tx, installation))
	})
	if err != nil {
		return fmt.Errorf("%s: %w", what, err)
	}
	return nil
}

// Limits are the limits that an operator sets for an institution. 0 means no limit.
type Limits struct {
	// Storage is the maximum size of the institution's files in bytes.
	Storage int64 `json:"storage"`
	// Certificates is the maximum number of new certificates in a calendar month in UTC.
	Certificates int64 `json:"certificates"`
	// Requests is the maximum number of requests of all tokens together in a minute.
	Requests int64 `json:"requests"`
}

// SetLimits changes the limits of an institution. The error is fault.Invalid if a limit is negative or
// greater than maxLimit, and fault.NotFound if there is no such institution.
func (s *Service) SetLimits(ctx context.Context, id int64, l Limits) error {
	var bad fault.Fields
	for name, value := range map[string]int64{"storage": l.Storage, "certificates": l.Certificates, "requests": l.Requests} {
		if value < 0 || value > maxLimit {
			bad.Add(name, LimitRule)
		}
	}
	if err := bad.Err(); err != nil {
		return err
	}
	return s.operate(ctx, id, "changing the limits of an institution", func(tx *db.Tx, i *Institution) (*audit.Entry, error) {
		if l == i.Limits {
			return nil, nil // nothing changes
		}
		changes, err := audit.Changes(i.Limits, l)
		if err != nil {
			return nil, err
		}
		_, err = tx.ExecContext(ctx, `UPDATE institutions SET limit_storage = $2, limit_certificates = $3, limit_requests = $4 WHERE id = $1`,
			id, l.Storage, l.Certificates, l.Requests)
		return &audit.Entry{Action: audit.InstitutionLimited, Detail: changes}, err
	})
}

const (
	// maxLimit is the maximum value of a limit. Sums with such a value do not overflow.
	maxLimit = 1 << 60
	// LimitRule is the problem of a value that is not a limit. It contains maxLimit.
	LimitRule = "The limit must be a whole number from 0 to 1152921504606846976. 0 means no limit."
)
