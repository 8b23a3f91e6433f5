package cert

import (
	"fmt"
	"strings"
)

// Diagram returns the state machine as a Markdown page. It generates the page from transitions, the table
// that moveTx uses.
func Diagram() string {
	var b strings.Builder
	b.WriteString("# States of a certificate\n\nGenerated from the table in `internal/cert/state.go` by `go generate`; do not edit.\n\n")
	b.WriteString("```mermaid\nstateDiagram-v2\n")
	for _, row := range transitions {
		for _, from := range row.From {
			fmt.Fprintf(&b, "    %s --> %s: %s\n", node(from), row.To, row.Trigger)
		}
	}
	for _, final := range []Status{Revoked, Rejected, Withdrawn, Lapsed} {
		fmt.Fprintf(&b, "    %s --> [*]\n", final)
	}
	b.WriteString("```\n\n| Trigger | From | To | Only for | Event | Job |\n|---|---|---|---|---|---|\n")
	for _, row := range transitions {
		var from []string
		for _, f := range row.From {
			from = append(from, name(f))
		}
		event := "none"
		if row.Event != "" {
			event = "`" + string(row.Event) + "`"
		}
		fmt.Fprintf(&b, "| %s | %s | %s | %s | %s | %s |\n", row.Trigger, strings.Join(from, ", "), row.To, row.Source, event, jobOf(row))
	}
	return b.String()
}

func node(s Status) string {
	if s == none {
		return "[*]"
	}
	return string(s)
}

func name(s Status) string {
	if s == none {
		return "(none)"
	}
	return string(s)
}

func jobOf(row transition) string {
	if row.Seals {
		return "make the verified PDF"
	}
	return ""
}
