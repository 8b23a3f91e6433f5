package mail

import "testing"

func TestStatusMeaning(t *testing.T) {
	t.Parallel()
	for status, want := range map[string]string{
		"5.1.1": "there is no such mailbox (550 5.1.1)", "5.1.9": "the address is wrong (550 5.1.9)", "5.7.509": "the rules of the mail server do not allow the message (550 5.7.509)",
		"5.9.1": "the reason is not known (550 5.9.1)", "": "the reason is not known (550)",
	} {
		if got := meaning(status, "550"); got != want {
			t.Errorf("meaning(%q) = %s, want %s", status, got, want)
		}
	}
}
