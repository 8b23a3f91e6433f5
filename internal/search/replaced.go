package search

// Replaced selects certificates by whether another certificate has replaced them.
type Replaced string

const (
	// AnyReplaced selects all certificates.
	AnyReplaced Replaced = ""
	// OnlyReplaced selects the certificates that were replaced.
	OnlyReplaced Replaced = "true"
	// NotReplaced selects the certificates that were not replaced.
	NotReplaced Replaced = "false"
)

// Replacements are the values of a Replaced that narrow a list.
var Replacements = []Replaced{OnlyReplaced, NotReplaced}

// replacedTerms returns the terms that select the records of table c by whether they were replaced. No
// index matches the expressions with coalesce.
func (v *view) replacedTerms() []string {
	switch v.Replaced {
	case OnlyReplaced:
		return []string{"coalesce(c.replaced_by, '') <> ''"}
	case NotReplaced:
		return []string{"coalesce(c.replaced_by, '') = ''"}
	default:
		return nil
	}
}
