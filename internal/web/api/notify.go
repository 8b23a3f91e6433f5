package api

import (
	"github.com/certvault/certvault/internal/cert"
	"github.com/certvault/certvault/internal/fault"
)

// notifyName is the name of the field that says when recipients get mail.
const notifyName = "notify"

var errNotifyText = fault.OfField(notifyName, "The notify field must be text.")

// notifyInput is the field of a bulk upload that says when the recipients get mail.
type notifyInput struct {
	notify cert.Notify
	given  bool
}

// setNotify stores the value of the field, which may be given once.
func (in *bulkInput) setNotify(value []byte) error {
	if in.given {
		return fault.OfField(notifyName, "The notify field is given more than once.")
	}
	in.given = true
	content, end := in.exchange.field(notifyName)
	_, _ = content.Write(value) // writing to a hash cannot fail
	end()
	in.notify = cert.ReadNotify(string(value))
	return nil
}
