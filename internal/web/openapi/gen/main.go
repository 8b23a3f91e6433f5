// Command gen converts the OpenAPI document from YAML to JSON. People edit the YAML file. The vault
// embeds the JSON file, so that it does not need a YAML parser.
//
//	go run ./gen openapi.yaml openapi.json
package main

import (
	"bytes"
	"encoding/json"
	"fmt"
	"log"
	"os"

	"go.yaml.in/yaml/v3"
)

func main() {
	log.SetFlags(0)
	if len(os.Args) != 3 {
		log.Fatal("usage: gen openapi.yaml openapi.json")
	}
	if err := run(os.Args[1], os.Args[2]); err != nil {
		log.Fatal("gen: ", err)
	}
}

func run(from, to string) error {
	text, err := os.ReadFile(from) //nolint:gosec // The path is an argument of the command line.
	if err != nil {
		return err
	}
	var root yaml.Node
	if err := yaml.Unmarshal(text, &root); err != nil {
		return fmt.Errorf("%s: %w", from, err)
	}
	var flat, indented bytes.Buffer
	if err := writeJSON(&flat, &root); err != nil {
		return fmt.Errorf("%s: %w", from, err)
	}
	if err := json.Indent(&indented, flat.Bytes(), "", "  "); err != nil {
		return fmt.Errorf("%s: %w", from, err)
	}
	indented.WriteByte('\n')
	return os.WriteFile(to, indented.Bytes(), 0o644) //nolint:gosec // The document is public and belongs to the repository.
}

// writeJSON writes a node as JSON. Members keep their order, and dates become strings.
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
		return fmt.Errorf("line %d: the value cannot be written as JSON", n.Line)
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
		return fmt.Errorf("writing a string: %w", err)
	}
	b.Truncate(b.Len() - 1) // Encode adds a newline
	return nil
}
