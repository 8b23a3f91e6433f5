package cert

import "time"

// maxYears is the maximum number of years from the issue date to the last day of validity.
const maxYears = 100

// CheckExpiry returns the problem of the last day of validity of a certificate, or nil if there is no
// problem. If issueDate is "", CheckExpiry uses today. If issueDate is not a date, CheckExpiry returns nil.
func CheckExpiry(issueDate, expiresOn, today string) *Problem {
	if expiresOn == "" {
		return nil
	}
	if issueDate == "" {
		issueDate = today
	}
	issued, err := time.Parse(dateLayout, issueDate)
	if err != nil {
		return nil //nolint:nilerr // the issue date has its own problem
	}
	expires, err := time.Parse(dateLayout, expiresOn)
	switch {
	case err != nil:
		return &Problem{Field: FieldExpiresOn, Code: CodeNotDate}
	case !expires.After(issued):
		return &Problem{Field: FieldExpiresOn, Code: CodeNotAfterIssue}
	case expires.After(issued.AddDate(maxYears, 0, 0)):
		return &Problem{Field: FieldExpiresOn, Code: CodeTooLate, Limit: maxYears}
	}
	return nil
}

// Expired reports whether the last day of validity of a certificate is over in UTC. The result does not
// depend on the status.
func (c *Certificate) Expired(now time.Time) bool {
	return c.ExpiresOn != "" && c.ExpiresOn < Today(now)
}

// HasExpired reports whether a certificate has expired at the current time of the shared clock.
func (s *Service) HasExpired(c *Certificate) bool { return c.Expired(s.leaseNow()) }

// dayOf returns the number of days from 1970-01-01 to a valid date.
func dayOf(date string) (int64, error) {
	at, err := time.Parse(dateLayout, date)
	return dayNumber(at), err
}

// dayNumber returns the number of days from 1970-01-01 to the day of a time in UTC.
func dayNumber(at time.Time) int64 {
	const day = 24 * 60 * 60
	seconds := at.Unix()
	if seconds < 0 {
		seconds -= day - 1
	}
	return seconds / day
}
