package page

import (
	"fmt"
	"html/template"
	"text/template/parse"

	"github.com/certvault/certvault/internal/locale"
)

// setter inserts the messages of a language into templates: {{.T "key"}} becomes text. If a message
// has values or is an argument, the call stays and its key is checked against the catalog, so that
// a misspelt key is found when the templates are loaded.
type setter struct {
	language *locale.Language
	// used are the templates that were called and are not yet processed.
	used []string
}

// setIn processes a node and its children.
func (s *setter) setIn(n parse.Node) error {
	switch n := n.(type) {
	case *parse.ListNode:
		return s.setInList(n)
	case *parse.ActionNode:
		return s.setIn(n.Pipe)
	case *parse.TemplateNode:
		s.used = append(s.used, n.Name)
		if n.Pipe != nil {
			return s.setIn(n.Pipe)
		}
	case *parse.IfNode:
		return s.setInBranch(&n.BranchNode)
	case *parse.RangeNode:
		return s.setInBranch(&n.BranchNode)
	case *parse.WithNode:
		return s.setInBranch(&n.BranchNode)
	case *parse.PipeNode:
		for _, c := range n.Cmds {
			if err := s.setIn(c); err != nil {
				return err
			}
		}
	case *parse.CommandNode:
		if _, _, err := message(n, s.language); err != nil {
			return err
		}
		for _, arg := range n.Args {
			if err := s.setIn(arg); err != nil {
				return err
			}
		}
	}
	return nil
}

func (s *setter) setInBranch(b *parse.BranchNode) error {
	if err := s.setIn(b.Pipe); err != nil {
		return err
	}
	if err := s.setIn(b.List); err != nil {
		return err
	}
	if b.ElseList != nil {
		return s.setIn(b.ElseList)
	}
	return nil
}

func (s *setter) setInList(list *parse.ListNode) error {
	for i, n := range list.Nodes {
		if a, ok := n.(*parse.ActionNode); ok && len(a.Pipe.Cmds) == 1 && len(a.Pipe.Decl) == 0 {
			text, alone, err := message(a.Pipe.Cmds[0], s.language)
			if err != nil {
				return err
			}
			if alone {
				// With this escaping, a text is valid in an element and in a quoted attribute.
				list.Nodes[i] = &parse.TextNode{NodeType: parse.NodeText, Pos: a.Pos, Text: []byte(template.HTMLEscapeString(text))}
				continue
			}
		}
		if err := s.setIn(n); err != nil {
			return err
		}
	}
	return nil
}

// message returns the text of a command that calls .T, .H, $.T, .Page.T or similar with a constant
// key. alone reports whether the message has no values.
func message(c *parse.CommandNode, l *locale.Language) (text string, alone bool, err error) {
	var names []string
	switch n := c.Args[0].(type) {
	case *parse.FieldNode:
		names = n.Ident
	case *parse.VariableNode:
		names = n.Ident
	default:
		return "", false, nil
	}
	if last := names[len(names)-1]; last != "T" && last != "H" {
		return "", false, nil
	}
	if len(c.Args) < 2 {
		return "", false, fmt.Errorf("%s does not name a message", c)
	}
	key, ok := c.Args[1].(*parse.StringNode)
	if !ok || !l.Has(key.Text) {
		return "", false, fmt.Errorf("there is no message %s", c.Args[1])
	}
	if len(c.Args) > 2 {
		return "", false, nil
	}
	text, err = l.Text(key.Text)
	return text, true, err
}
