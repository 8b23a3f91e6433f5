package main

import (
	"io"

	"github.com/certvault/certvault/internal/account"
)

// expiryFlags are the flags for the event and the mail before a certificate expires.
type expiryFlags struct {
	ExpiryDays *int  `help:"Days before the expiry of a certificate at which the event certificate_application.expiring is sent, 1 to 365." placeholder:"DAYS"`
	ExpiryMail *bool `help:"Remind the recipient by mail at the same time." negatable:""`
}

// apply sets the values of the given flags.
func (f *expiryFlags) apply(e *account.Expiry) {
	set(&e.ExpiryDays, f.ExpiryDays)
	set(&e.ExpiryMail, f.ExpiryMail)
}

// printExpiry prints the settings as text.
func printExpiry(w io.Writer, e account.Expiry) {
	printf(w, "Days before the expiry at which the event is sent: %d; mail to the recipient: %s.\n", e.ExpiryDays, map[bool]string{true: "yes", false: "no"}[e.ExpiryMail])
}
