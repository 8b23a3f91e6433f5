package client

const (
	// NotifyNow sends the mail when the certificate is approved.
	NotifyNow = "now"
	// NotifyNever sends no mail.
	NotifyNever = "never"
)

// Notify sets when Upload, SubmitBatch, Issue and Replace send mail to the recipients: NotifyNow,
// NotifyNever, or a time as in RFC 3339 that is in the future and at most a year ahead. The default is
// NotifyNow, and for Replace the value of the replaced certificate, unless its mail was sent. With
// NotifyNever, Revoke sends no mail. The option has no effect on other calls.
func Notify(when string) Option {
	return func(c *call) { c.notify = when }
}

// notifyOf returns the value of the option Notify in options, or "".
func notifyOf(options []Option) string {
	var c call
	for _, o := range options {
		o(&c)
	}
	return c.notify
}
