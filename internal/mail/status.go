package mail

import "strings"

// meanings explains permanent status codes (RFC 3463, 3; RFC 7372; RFC 7505). A key is a whole
// code, or a class and a subject. The latter is for all other codes of this class and subject.
var meanings = map[string]string{
	"5.1.1": "there is no such mailbox", "5.1.2": "there is no such domain, or it does not accept mail", "5.1.3": "the address is not a valid mail address",
	"5.1.6": "the mailbox has moved", "5.1.10": "the domain does not accept mail", "5.1": "the address is wrong",
	"5.2.1": "the mailbox is closed", "5.2.2": "the mailbox is full", "5.2.3": "the message is too large for the mailbox", "5.2": "the mailbox does not accept the message",
	"5.3.4": "the message is too large for the mail server", "5.3": "the mail server does not accept the message",
	"5.4": "the mail server of the domain cannot be reached", "5.6": "the mail server cannot read the message",
	"5.7.26": "the sender's domain did not pass SPF or DKIM", "5.7": "the rules of the mail server do not allow the message",
}

// meaning returns an explanation of an enhanced status code, followed by codes and the status code
// in parentheses.
func meaning(status string, codes ...string) string {
	subject := status
	if parts := strings.SplitN(status, ".", 3); len(parts) == 3 {
		subject = parts[0] + "." + parts[1]
	}
	text, ok := meanings[status]
	if !ok {
		text, ok = meanings[subject]
	}
	if !ok {
		text = "the reason is not known"
	}
	return text + " (" + strings.TrimSpace(strings.Join(append(codes, status), " ")) + ")"
}
