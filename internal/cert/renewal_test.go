package cert

import "testing"

func TestRenewedUntil(t *testing.T) {
	t.Parallel()
	for _, tc := range []struct{ issued, expires, day, want string }{
		{"2024-03-01", "", "2026-11-23", ""},
		{"2024-03-01", "2026-03-01", "2026-11-23", "2028-11-23"},
		{"2024-03-01", "2026-02-28", "2026-11-23", "2028-11-22"}, // ends on the day before
		{"2024-03-01", "2024-09-01", "2026-11-23", "2027-05-23"}, // six months
		{"2025-12-31", "2026-12-30", "2026-11-23", "2027-11-22"}, // ends on the day before, in the month of the issue
		{"2024-01-01", "2024-01-11", "2026-11-23", "2026-12-03"}, // ten days
		{"2024-02-29", "2028-02-29", "2026-11-23", "2030-11-23"},
	} {
		c := &Certificate{IssueDate: tc.issued, ExpiresOn: tc.expires}
		if got, err := c.RenewedUntil(tc.day); err != nil || got != tc.want {
			t.Errorf("issued on %s, valid until %s: RenewedUntil(%s) = %s, err = %v, want %s", tc.issued, tc.expires, tc.day, got, err, tc.want)
		}
	}
}
