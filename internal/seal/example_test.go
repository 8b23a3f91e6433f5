package seal_test

import (
	"fmt"
	"strings"

	"github.com/certvault/certvault/internal/seal"
)

func ExampleSniff() {
	page := "<html>"
	_, err := seal.Sniff("diploma.pdf", strings.NewReader(page), int64(len(page)))
	fmt.Println(err)
	// Output: The file name says a PDF document, but its content is something else.
}
