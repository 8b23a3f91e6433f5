package account

import "testing"

func TestSuggestedDomain(t *testing.T) {
	t.Parallel()
	for address, want := range map[string]string{
		"emile.schafer@gmial.com": "gmail.com",
		"a@GMIAL.com":             "gmail.com",
		"a@gmai.com":              "gmail.com",
		"a@gmaill.com":            "gmail.com",
		"a@gnail.com":             "gmail.com",
		"a@gmail.con":             "gmail.com",
		"a@gmial.cmo":             "gmail.com",
		"a@hotmial.co.uk":         "hotmail.co.uk",
		"a@yaho.fr":               "yahoo.fr",
		"a@outlok.de":             "outlook.de",
		"a@iclod.com":             "icloud.com",
		"a@aol.con":               "aol.com",
		"a@yahoo.co":              "yahoo.com",
		// These domains are correct or may be correct.
		"a@gmail.com": "", "a@mail.com": "", "a@ymail.com": "", "a@email.com": "", "a@love.com": "", "a@gmx.de": "", "a@gmx.net": "",
		"a@yahoo.co.uk": "", "a@yahoo.ie": "", "a@hotmail.fr": "", "a@nwu.example": "", "a@gmial.example": "", "a@gmial.com.nwu.example": "",
		"a@online.de": "", "a@example.co": "", "a@aoe.com": "",
	} {
		e, err := ParseEmail(address)
		if err != nil {
			t.Fatal(err)
		}
		if got := SuggestedDomain(e); got != want {
			t.Errorf("SuggestedDomain(%s) = %q, want %q", address, got, want)
		}
	}
	if got := SuggestedDomain(Email{}); got != "" {
		t.Errorf("SuggestedDomain of an empty address = %q, want none", got)
	}
}
