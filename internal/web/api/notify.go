package api

import (
	"github.com/certvault/certvault/internal/cert"
	"github.com/certvault/certvault/internal/fault"
)

// notifyName is the name of the field whose value cert.ReadNotify parses.
const notifyName = "notify"

var errNotifyText = fault.OfField(notifyName, "The notify field must be text.")

// notifyInput is the field notify of a bulk upload. given reports whether the request has the field.
type notifyInput struct {
	notify cert.Notify
	given  bool
}

// setNotify stores the value of the field and adds it to the fingerprint. A second value is an error.
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
