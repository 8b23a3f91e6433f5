package openapi

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"

	"go.yaml.in/yaml/v3"
)

// toJSON writes the document as JSON, in the order in which it is written, with
// base as its one server.
func toJSON(root *yaml.Node, base string) ([]byte, error) {
	var b bytes.Buffer
	if err := writeJSON(&b, root); err != nil {
		return nil, err
	}
	var members map[string]json.RawMessage
	if err := json.Unmarshal(b.Bytes(), &members); err != nil {
		return nil, fmt.Errorf("reading what was written: %w", err)
	}
	servers, err := json.Marshal([]map[string]string{{"url": base}})
	if err != nil {
		return nil, fmt.Errorf("writing the server: %w", err)
	}
	if members["servers"] == nil {
		return nil, errors.New("the document names no servers")
	}
	return bytes.Replace(b.Bytes(), append([]byte(`"servers":`), members["servers"]...), append([]byte(`"servers":`), servers...), 1), nil
}

// writeJSON writes a node. A date is text in JSON.
func writeJSON(b *bytes.Buffer, n *yaml.Node) error {
	switch n.Kind {
	case yaml.DocumentNode:
		return writeJSON(b, n.Content[0])
	case yaml.AliasNode:
		return writeJSON(b, n.Alias)
	case yaml.MappingNode:
		return writeList(b, n, '{', '}')
	case yaml.SequenceNode:
		return writeList(b, n, '[', ']')
	case yaml.ScalarNode:
		if tag := n.ShortTag(); tag == "!!null" || tag == "!!bool" || tag == "!!int" || tag == "!!float" {
			b.WriteString(n.Value)
			return nil
		}
		return writeText(b, n.Value)
	default:
		return fmt.Errorf("line %d: there is something that JSON does not have", n.Line)
	}
}

func writeList(b *bytes.Buffer, n *yaml.Node, begin, end byte) error {
	b.WriteByte(begin)
	for i, c := range n.Content {
		isKey := n.Kind == yaml.MappingNode && i%2 == 0
		switch {
		case i == 0:
		case n.Kind == yaml.MappingNode && !isKey:
			b.WriteByte(':')
		default:
			b.WriteByte(',')
		}
		if isKey {
			if err := writeText(b, c.Value); err != nil {
				return err
			}
			continue
		}
		if err := writeJSON(b, c); err != nil {
			return err
		}
	}
	b.WriteByte(end)
	return nil
}

func writeText(b *bytes.Buffer, s string) error {
	enc := json.NewEncoder(b)
	enc.SetEscapeHTML(false)
	if err := enc.Encode(s); err != nil {
		return fmt.Errorf("writing text: %w", err)
	}
	b.Truncate(b.Len() - 1) // the encoder ends a line
	return nil
}
