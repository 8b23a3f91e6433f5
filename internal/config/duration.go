package config

import (
	"fmt"
	"strconv"
	"strings"
	"time"
)

// maxDuration is the maximum of a Duration: a hundred years.
const maxDuration = 36_500 * 24 * time.Hour

// Duration is a setting: a number of days such as 14d, a duration in Go's units such as 36h, or 0.
type Duration time.Duration

// UnmarshalText implements [encoding.TextUnmarshaler].
func (d *Duration) UnmarshalText(text []byte) error {
	value, err := parseDuration(string(text))
	if err != nil || value < 0 || value > maxDuration {
		return fmt.Errorf("%q is not a duration such as 14d, 36h or 0", text)
	}
	*d = Duration(value)
	return nil
}

func parseDuration(text string) (time.Duration, error) {
	if days, ok := strings.CutSuffix(text, "d"); ok {
		n, err := strconv.ParseUint(days, 10, 16)
		return time.Duration(n) * 24 * time.Hour, err
	}
	return time.ParseDuration(text)
}
