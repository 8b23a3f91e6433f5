package openapi

import (
	"fmt"
	"strings"
)

// curl returns a command line that calls an operation. The token, the parameters in the path and
// the required query parameters are shell variables, such as $TOKEN. The body has example values.
func (d *document) curl(method, path string, o *operation) string {
	var lines []string
	query := ""
	for _, p := range o.Parameters {
		switch {
		case p.In == "path":
			path = strings.ReplaceAll(path, "{"+p.Name+"}", `$`+strings.ToUpper(p.Name))
		case p.In == "query" && p.Required:
			query += fmt.Sprintf("&%s=$%s", p.Name, strings.ToUpper(p.Name))
		}
	}
	if query != "" {
		query = "?" + query[1:]
	}
	lines = append(lines, fmt.Sprintf(`curl "%s%s%s"`, d.base, path, query))
	if len(o.Security) > 0 {
		lines = append(lines, `-H "Authorization: Bearer $TOKEN"`)
	}
	lines = append(lines, d.curlAccept(o)...)
	switch {
	case o.RequestBody != nil:
		lines = append(lines, d.curlBody(o.RequestBody)...)
	case method != "GET":
		lines = append(lines, "-X "+method)
	}
	return strings.Join(lines, " \\\n    ")
}

// curlAccept returns the options for the response. For a PDF, curl saves a file with the name that the
// vault sends. For an SVG picture, it saves a file with the name in the URL. Plain text needs no option.
// For all other operations, curl requests JSON.
func (d *document) curlAccept(o *operation) []string {
	for _, r := range o.Responses {
		if r.Name != "200" {
			continue
		}
		for _, c := range r.Value.Content {
			switch c.Name {
			case "application/pdf":
				return []string{`-H "Accept: application/pdf"`, "-O -J"}
			case "image/svg+xml":
				return []string{"-O"}
			case "text/plain":
				return nil
			}
		}
	}
	return []string{`-H "Accept: application/json"`}
}

func (d *document) curlBody(b *requestBody) []string {
	var lines []string
	for _, c := range b.Content {
		if c.Name == "application/json" {
			return []string{`-H "Content-Type: application/json"`, "-d '" + compact(exampleText(c.Value.Example)) + "'"}
		}
	}
	s := d.schema(b.Content[0].Value.Schema)
	for _, p := range s.Properties {
		member := d.schema(p.Value)
		switch {
		case member.ContentMediaType != "":
			lines = append(lines, fmt.Sprintf("-F %s=@diploma.pdf", p.Name))
		case len(member.Examples) > 0:
			lines = append(lines, fmt.Sprintf(`-F %s="%v"`, p.Name, member.Examples[0]))
		}
	}
	return lines
}

// compact returns indented JSON on one line.
func compact(indented string) string {
	lines := strings.Split(indented, "\n")
	for i := range lines {
		lines[i] = strings.TrimSpace(lines[i])
	}
	return strings.Join(lines, " ")
}
