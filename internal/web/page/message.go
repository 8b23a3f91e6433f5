package page

import (
	"fmt"
	"html/template"
	"text/template/parse"

	"github.com/certvault/certvault/internal/locale"
)

// setMessages sets the messages of a language into a template: {{.T "key"}}
// becomes text. Where a message has values, or is an argument, the call stays and
// is held against the catalog: messages are written out, so that a misspelt one is
// found before anyone sees the page.
func setMessages(t *template.Template, l *locale.Language) error {
	for _, part := range t.Templates() {
		if part.Tree == nil {
			continue
		}
		if err := setIn(part.Tree.Root, l); err != nil {
			return err
		}
	}
	return nil
}

// setIn goes through a node and all below it.
func setIn(n parse.Node, l *locale.Language) error {
	switch n := n.(type) {
	case *parse.ListNode:
		return setInList(n, l)
	case *parse.ActionNode:
		return setIn(n.Pipe, l)
	case *parse.TemplateNode:
		if n.Pipe != nil {
			return setIn(n.Pipe, l)
		}
	case *parse.IfNode:
		return setInBranch(&n.BranchNode, l)
	case *parse.RangeNode:
		return setInBranch(&n.BranchNode, l)
	case *parse.WithNode:
		return setInBranch(&n.BranchNode, l)
	case *parse.PipeNode:
		for _, c := range n.Cmds {
			if err := setIn(c, l); err != nil {
				return err
			}
		}
	case *parse.CommandNode:
		if _, _, err := message(n, l); err != nil {
			return err
		}
		for _, arg := range n.Args {
			if err := setIn(arg, l); err != nil {
				return err
			}
		}
	}
	return nil
}

func setInBranch(b *parse.BranchNode, l *locale.Language) error {
	if err := setIn(b.Pipe, l); err != nil {
		return err
	}
	if err := setIn(b.List, l); err != nil {
		return err
	}
	if b.ElseList != nil {
		return setIn(b.ElseList, l)
	}
	return nil
}

func setInList(list *parse.ListNode, l *locale.Language) error {
	for i, n := range list.Nodes {
		if a, ok := n.(*parse.ActionNode); ok && len(a.Pipe.Cmds) == 1 && len(a.Pipe.Decl) == 0 {
			text, alone, err := message(a.Pipe.Cmds[0], l)
			if err != nil {
				return err
			}
			if alone {
				// Escaped so, a text is good in an element and in a quoted attribute.
				list.Nodes[i] = &parse.TextNode{NodeType: parse.NodeText, Pos: a.Pos, Text: []byte(template.HTMLEscapeString(text))}
				continue
			}
		}
		if err := setIn(n, l); err != nil {
			return err
		}
	}
	return nil
}

// message gives the text of a command that asks for one: .T, .H, $.T, .Page.T and
// so on, with the key written out. It is alone when it has no values.
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
		return "", false, fmt.Errorf("%s names no message", c)
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
