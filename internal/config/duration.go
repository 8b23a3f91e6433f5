package config

import (
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/alecthomas/kong"
)

// maxDuration is the maximum of a Duration: a hundred years.
const maxDuration = 36_500 * 24 * time.Hour

// Duration is a duration in a setting: in days such as 14d, or in the units of time.ParseDuration such as 36h.
type Duration time.Duration //nolint:recvcheck // Decode must change the value, and String must work for values

// Decode implements [kong.MapperValue]. A configuration file may contain the number 0.
func (d *Duration) Decode(ctx *kong.DecodeContext) error {
	token, err := ctx.Scan.PopValue("duration")
	if err != nil {
		return err
	}
	text := fmt.Sprint(token.Value)
	value, err := parseDuration(text)
	if err != nil || value < 0 || value > maxDuration {
		return fmt.Errorf("%q is not a duration such as 14d, 36h or 0", text)
	}
	*d = Duration(value)
	return nil
}

// String returns the duration in the form of a setting.
func (d Duration) String() string {
	const day = 24 * time.Hour
	if t := time.Duration(d); t%day != 0 || t == 0 {
		return t.String()
	}
	return strconv.FormatInt(int64(time.Duration(d)/day), 10) + "d"
}

func parseDuration(text string) (time.Duration, error) {
	if days, ok := strings.CutSuffix(text, "d"); ok {
		n, err := strconv.ParseUint(days, 10, 16)
		return time.Duration(n) * 24 * time.Hour, err
	}
	return time.ParseDuration(text)
}
