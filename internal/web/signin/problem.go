package signin

import (
	"errors"

	"github.com/certvault/certvault/internal/fault"
	"github.com/certvault/certvault/internal/identity"
)

// problems maps errors of package identity to the keys of their messages.
var problems = map[error]string{
	identity.ErrWrong: "problem.wrong", identity.ErrCode: "problem.code", identity.ErrPasskey: "problem.passkey",
	identity.ErrTaken: "problem.taken", identity.ErrBusy: "problem.busy", identity.ErrYours: "addresses.yours",
	identity.ErrTooManyAddresses: "addresses.too_many", identity.ErrUnverified: "addresses.unverified",
}

// fields maps a field to the key of the message about its problem.
var fields = map[string]string{
	"email": "problem.email", "password": "problem.password", "new_password": "problem.password", "name": "problem.name", "passkey_name": "problem.name",
	"further": "problem.email",
}

// translate returns err with its English messages replaced by keys of the catalog. If there is no key
// for err, or for one of its fields, translate returns err unchanged.
func translate(err error) error {
	for known, message := range problems {
		if errors.Is(err, known) {
			translated := &fault.Error{Kind: fault.KindOf(known), Message: message, Err: err}
			if e, ok := errors.AsType[*fault.Error](err); ok {
				translated.RetryAfter = e.RetryAfter
			}
			return translated
		}
	}
	e, ok := errors.AsType[*fault.Error](err)
	if !ok {
		return err
	}
	if e.Kind == fault.TooMany {
		return &fault.Error{Kind: e.Kind, Message: "problem.too_often", RetryAfter: e.RetryAfter, Err: err}
	}
	var translated fault.Fields
	for _, f := range e.Fields {
		if message, ok := fields[f.Name]; ok {
			translated.Add(f.Name, message)
		}
	}
	if translated.Len() == len(e.Fields) && translated.Len() > 0 {
		return translated.Err()
	}
	return err
}

// renameField moves the error of a field to a control with another name.
func renameField(err error, from, to string) error {
	e, ok := errors.AsType[*fault.Error](err)
	if !ok || len(e.Fields) == 0 {
		return err
	}
	var renamed fault.Fields
	for _, f := range e.Fields {
		name := f.Name
		if name == from {
			name = to
		}
		for _, m := range f.Messages {
			renamed.Add(name, m)
		}
	}
	return renamed.Err()
}

// notices maps the names of notices after a redirect to the keys of their messages.
var notices = map[string]string{
	"signed_out": "notice.signed_out", "password_set": "notice.password_set", "address_changed": "notice.address_changed", "address_asked": "notice.address_asked",
	"name_set": "notice.name_set", "language_set": "notice.language_set", "passkey_added": "notice.passkey_added", "passkey_removed": "notice.passkey_removed",
	"codes_off": "notice.codes_off", "session_ended": "notice.session_ended", "others_ended": "notice.others_ended", "link_sent": "notice.link_sent",
	"owner_known": "notice.owner_known", "further_asked": "addresses.asked", "further_added": "addresses.added", "further_removed": "addresses.removed",
}
