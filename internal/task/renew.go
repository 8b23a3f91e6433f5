package task

import (
	"context"

	"github.com/certvault/certvault/internal/account"
	"github.com/certvault/certvault/internal/audit"
	"github.com/certvault/certvault/internal/cert"
	"github.com/certvault/certvault/internal/db"
	"github.com/certvault/certvault/internal/fault"
)

// renewals maps the UUIDs of those certificates of a step that can be renewed to the inputs for their renewals.
func (s *Service) renewals(ctx context.Context, d *Task, uuids []string) (map[string]cert.Upload, error) {
	inst, err := account.InstitutionByID(ctx, s.db, d.institutionID)
	if err != nil {
		return nil, err
	}
	creator := cert.Actor{Type: string(d.actor.Type), Name: d.actor.Name}
	if d.actor.Type == audit.User {
		person, err := account.UserByUUID(ctx, s.db, d.actor.ID)
		if err != nil && !fault.Is(err, fault.NotFound) {
			return nil, err
		}
		if err == nil {
			creator.ID = person.ID
		}
	}
	list := map[string]cert.Upload{}
	for _, uuid := range uuids {
		u, err := s.renewal(ctx, inst, creator, uuid)
		if isRefusal(err) {
			continue
		}
		if err != nil {
			return nil, err
		}
		list[uuid] = u
	}
	return list, nil
}

// renewTx replaces a certificate by its renewal. It returns cert.ErrInvalidState if the certificate cannot
// be renewed.
func (s *Service) renewTx(ctx context.Context, tx *db.Tx, d *Task, uuid string) error {
	u, ok := d.renewals[uuid]
	if !ok {
		return cert.ErrInvalidState
	}
	// The transaction of the step continues after a refusal, so the renewal must not be refused after it was
	// stored. ReplaceTx calls u.Then after it has stored the renewal, so u.Then is called here instead.
	// u.Then checks only that the template is still available.
	if then := u.Then; then != nil {
		u.Then = nil
		if err := then(ctx, tx, nil); err != nil {
			return refused(err)
		}
	}
	u.Notify = cert.Notify{Kept: true}
	_, err := s.certs.ReplaceTx(ctx, tx, uuid, u)
	return refused(err)
}

// refused returns cert.ErrInvalidState for an error that means that a certificate cannot be renewed.
func refused(err error) error {
	if isRefusal(err) {
		return cert.ErrInvalidState
	}
	return err
}

// isRefusal reports whether an error means that a certificate cannot be renewed, and not that an operation
// failed.
func isRefusal(err error) bool {
	// Forbidden means that a limit of the institution is reached.
	return fault.Is(err, fault.BadRequest) || fault.Is(err, fault.Invalid) || fault.Is(err, fault.NotFound) || fault.Is(err, fault.Forbidden)
}
