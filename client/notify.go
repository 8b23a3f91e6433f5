package client

const (
	// NotifyNow mails the recipient of a new certificate at its approval. It is the default.
	NotifyNow = "now"
	// NotifyNever sends no mail to the recipient of a new or revoked certificate.
	NotifyNever = "never"
)

// Notify chooses when Upload, SubmitBatch and Issue mail the recipients: NotifyNow, NotifyNever, or a time
// as in RFC 3339 that is in the future and at most a year ahead. With NotifyNever, Revoke mails no one. The
// option has no effect on other calls.
func Notify(when string) Option {
	return func(c *call) { c.notify = when }
}

// notifyOf returns the choice in options, or "".
func notifyOf(options []Option) string {
	var c call
	for _, o := range options {
		o(&c)
	}
	return c.notify
}
