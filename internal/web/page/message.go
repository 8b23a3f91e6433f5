package page

import (
	"fmt"
	"html/template"
	"text/template/parse"

	"github.com/certvault/certvault/internal/locale"
)

// inserter inserts the messages of a language into templates: it replaces {{.T "key"}} with text. If a
// message has values or is an argument, inserter keeps the call. It checks the keys of all calls, so that
// an unknown key is an error when the templates are loaded.
type inserter struct {
	language *locale.Language
	// used are the names of the templates that the processed templates call. complete removes a name
	// when it processes the template.
	used []string
}

// insert processes a node and its children.
func (s *inserter) insert(n parse.Node) error {
	switch n := n.(type) {
	case *parse.ListNode:
		return s.insertInList(n)
	case *parse.ActionNode:
		return s.insert(n.Pipe)
	case *parse.TemplateNode:
		s.used = append(s.used, n.Name)
		if n.Pipe != nil {
			return s.insert(n.Pipe)
		}
	case *parse.IfNode:
		return s.insertInBranch(&n.BranchNode)
	case *parse.RangeNode:
		return s.insertInBranch(&n.BranchNode)
	case *parse.WithNode:
		return s.insertInBranch(&n.BranchNode)
	case *parse.PipeNode:
		for _, c := range n.Cmds {
			if err := s.insert(c); err != nil {
				return err
			}
		}
	case *parse.CommandNode:
		if _, _, err := message(n, s.language); err != nil {
			return err
		}
		for _, arg := range n.Args {
			if err := s.insert(arg); err != nil {
				return err
			}
		}
	}
	return nil
}

func (s *inserter) insertInBranch(b *parse.BranchNode) error {
	if err := s.insert(b.Pipe); err != nil {
		return err
	}
	if err := s.insert(b.List); err != nil {
		return err
	}
	if b.ElseList != nil {
		return s.insert(b.ElseList)
	}
	return nil
}

func (s *inserter) insertInList(list *parse.ListNode) error {
	for i, n := range list.Nodes {
		if a, ok := n.(*parse.ActionNode); ok && len(a.Pipe.Cmds) == 1 && len(a.Pipe.Decl) == 0 {
			text, constant, err := message(a.Pipe.Cmds[0], s.language)
			if err != nil {
				return err
			}
			if constant {
				// The escaped text is valid in an element and in a quoted attribute.
				list.Nodes[i] = &parse.TextNode{NodeType: parse.NodeText, Pos: a.Pos, Text: []byte(template.HTMLEscapeString(text))}
				continue
			}
		}
		if err := s.insert(n); err != nil {
			return err
		}
	}
	return nil
}

// message returns the text of a command that calls T or H, for example .T, $.H or .Page.T, with a
// constant key and no values. constant reports whether the command is such a call. A call of T or H whose
// key is missing, unknown or not constant is an error.
func message(c *parse.CommandNode, l *locale.Language) (text string, constant bool, err error) {
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
		return "", false, fmt.Errorf("%s has no message key", c)
	}
	key, ok := c.Args[1].(*parse.StringNode)
	if !ok || !l.Has(key.Text) {
		return "", false, fmt.Errorf("the catalog has no message %s", c.Args[1])
	}
	if len(c.Args) > 2 {
		return "", false, nil
	}
	text, err = l.Text(key.Text)
	return text, true, err
}
