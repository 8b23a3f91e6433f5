package openapi

import "strings"

// block is a paragraph, a heading or a list of a description.
type block struct {
	Heading string
	// ID is the id of the heading in HTML.
	ID    string
	Text  []span
	Items [][]span
}

// span is a piece of plain text or code.
type span struct {
	Text string
	Code bool
}

// blocks parses a description. It supports paragraphs, headings that begin with "## ", lists whose items
// begin with "- ", and `code`. Blank lines separate the blocks.
func blocks(description string) []block {
	var list []block
	for part := range strings.SplitSeq(strings.TrimSpace(description), "\n\n") {
		part = strings.TrimSpace(part)
		switch heading, isHeading := strings.CutPrefix(part, "## "); {
		case part == "":
		case isHeading:
			list = append(list, block{Heading: heading, ID: strings.ReplaceAll(strings.ToLower(heading), " ", "-")})
		case strings.HasPrefix(part, "- "):
			var b block
			for item := range strings.SplitSeq(strings.TrimPrefix(part, "- "), "\n- ") {
				b.Items = append(b.Items, spans(item))
			}
			list = append(list, b)
		default:
			list = append(list, block{Text: spans(part)})
		}
	}
	return list
}

// spans splits text at backticks into code and plain text.
func spans(text string) []span {
	var list []span
	isCode := false
	for piece := range strings.SplitSeq(strings.Join(strings.Fields(text), " "), "`") {
		if piece != "" {
			list = append(list, span{Text: piece, Code: isCode})
		}
		isCode = !isCode
	}
	return list
}
