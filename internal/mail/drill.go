package mail

import (
	"context"

	"github.com/certvault/certvault/internal/fault"
)

// NoSender is the Sender of a drill, which sends no mail.
type NoSender struct{}

var errDrill = fault.New(fault.Conflict, "This vault is a drill of a restore. It sends no mail.")

// Send returns an error of kind Conflict.
func (NoSender) Send(context.Context, *Envelope) error { return errDrill }
