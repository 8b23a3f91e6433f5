package account

import (
	"fmt"
	"math"
	"strconv"
	"strings"

	"github.com/certvault/certvault/internal/fault"
)

// sizeUnits are the units of sizes, largest first. 1 MB is 2^20 bytes.
var sizeUnits = []struct {
	suffix string
	shift  int
}{{"TB", 40}, {"GB", 30}, {"MB", 20}, {"KB", 10}, {"B", 0}}

// ParseSize parses a number of bytes, such as 500GB or 1073741824. The error is fault.Invalid for the
// field storage.
func ParseSize(text string) (int64, error) {
	number, shift := strings.ToUpper(strings.Join(strings.Fields(text), "")), 0
	for _, u := range sizeUnits {
		if rest, ok := strings.CutSuffix(number, u.suffix); ok {
			number, shift = rest, u.shift
			break
		}
	}
	n, err := strconv.ParseInt(number, 10, 64)
	if err != nil || n < 0 || n > math.MaxInt64>>shift {
		return 0, fault.OfField("storage", "The limit of storage must be a size such as 500 GB or 1073741824. 0 means no limit.")
	}
	return n << shift, nil
}

// FormatSize formats a number of bytes in the largest unit in which it is a whole number. ParseSize
// parses the result to the same number.
func FormatSize(n int64) string {
	for _, u := range sizeUnits {
		if n != 0 && n%(1<<u.shift) == 0 && u.shift > 0 {
			return fmt.Sprintf("%d %s", n>>u.shift, u.suffix)
		}
	}
	return strconv.FormatInt(n, 10)
}
