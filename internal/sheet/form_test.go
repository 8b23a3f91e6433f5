package sheet_test

import (
	"fmt"
	"testing"

	"github.com/certvault/certvault/internal/sheet"
)

func TestForms(t *testing.T) {
	t.Parallel()
	header := []string{"A", "B", "C", "D", "E"}
	rows := []sheet.Row{
		{Number: 2, Cells: []string{"ada@example.org", "12.03.2001", "Grace Hopper", "1,3"}},
		{Number: 3, Cells: []string{"bea@example.org", "13.03.2001", "Grace Hopper", "2,0"}},
	}
	if got, want := fmt.Sprintf("%q", sheet.Forms(header, rows)), `["emails" "dates" "people" "" ""]`; got != want {
		t.Errorf("Forms() = %s, want %s", got, want)
	}
	for name, want := range map[string]sheet.Form{
		"Date of birth": sheet.Dates, "Kursbeginn": sheet.Dates, "Supervisor": sheet.People, "E-mail of the supervisor": sheet.Emails, "Grade": "", "Hours": "", "Candidate number": "", "تاريخ البدء": sheet.Dates,
	} {
		if got := sheet.FormOfName(name); got != want {
			t.Errorf("FormOfName(%q) = %q, want %q", name, got, want)
		}
	}
}
