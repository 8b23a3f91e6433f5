package main

import (
	"cmp"
	"fmt"
	"io"
	"slices"
	"strings"

	"github.com/alecthomas/kong"

	"github.com/certvault/certvault/internal/app"
)

type manCommand struct{}

// A flag is common if at least commonUses commands have it. The page describes a common flag only once.
const commonUses = 10

// Run prints the manual page with the macros of man(7). The page depends only on the version of the
// program, so that the builds of packages are reproducible.
func (manCommand) Run(c *console, parsed *kong.Context) error {
	p := manPage{w: c.stdout}
	p.write(parsed.Model)
	return p.err
}

// manPage writes a manual page. After the first error, it writes nothing.
type manPage struct {
	w   io.Writer
	err error
}

func (p *manPage) printf(format string, args ...any) {
	if p.err == nil {
		_, p.err = fmt.Fprintf(p.w, format+"\n", args...)
	}
}

// text writes a text on one line, escaped for troff.
func (p *manPage) text(text string) { p.printf("%s", roff(text)) }

// roff escapes a text for troff: backslashes, hyphens, which would become typographic ones, and a period
// or an apostrophe at the start, which would begin a request. It replaces line feeds by spaces.
func roff(text string) string {
	text = strings.NewReplacer(`\`, `\e`, "-", `\-`, "\n", " ").Replace(strings.TrimSpace(text))
	if strings.HasPrefix(text, ".") || strings.HasPrefix(text, "'") {
		return `\&` + text
	}
	return text
}

func (p *manPage) write(model *kong.Application) {
	leaves := model.Leaves(true)
	common := commonFlags(leaves)
	help, description, _ := strings.Cut(model.Help, "\n\n")
	p.printf(`.TH CERTVAULT 1 "" "%s"`, roff("certvault "+app.Version()))
	p.printf(".SH NAME")
	p.printf(`certvault \- %s`, roff(strings.TrimSuffix(help, ".")))
	p.printf(".SH SYNOPSIS")
	p.printf(`.B certvault \fICOMMAND\fR [\fIOPTION\fR ...]`)
	p.printf(".SH DESCRIPTION")
	p.text(description)
	p.printf(".PP")
	p.text("Each option is also an environment variable (--base-url is CERTVAULT_BASE_URL) and a key of the file of --config (base-url, in TOML). " +
		"An option overrides the environment, which overrides the file.")
	p.printf(".SH COMMANDS")
	for _, leaf := range leaves {
		p.command(leaf, common)
	}
	p.printf(".SH COMMON OPTIONS")
	for _, f := range common {
		p.flag(f)
	}
	p.printf(".SH EXIT STATUS")
	p.text("0 done, 1 refused or failed, 2 wrong usage. verify: 0 valid, 1 not valid, 2 unknown.")
	p.printf(".SH FILES")
	for _, file := range [][2]string{
		{"certvault-data", "the data folder, unless --data is set"},
		{"/etc/certvault/certvault.toml, /var/lib/certvault", "configuration and data folder of the packages"},
	} {
		p.printf(".TP\n.I %s", roff(file[0]))
		p.text(file[1])
	}
}

func (p *manPage) command(n *kong.Node, common []*kong.Flag) {
	words := []string{n.FullPath()}
	for _, arg := range n.Positional {
		words = append(words, arg.Summary())
	}
	p.printf(`.SS "%s"`, roff(strings.Join(words, " ")))
	p.text(cmp.Or(n.Help, n.Detail))
	for _, arg := range n.Positional {
		p.printf(".TP\n.I %s", roff(arg.Summary()))
		p.text(arg.Help)
	}
	for _, f := range n.Flags {
		if !f.Hidden && !slices.ContainsFunc(common, func(c *kong.Flag) bool { return sameFlag(c, f) }) {
			p.flag(f)
		}
	}
}

func (p *manPage) flag(f *kong.Flag) {
	name := "--" + f.Name
	if f.Negated {
		name = "--no-" + f.Name
	} else if f.Tag.Negatable != "" {
		name = "--[no-]" + f.Name
	}
	if f.Short != 0 {
		name = "-" + string(f.Short) + ", " + name
	}
	value := ""
	if !f.IsBool() {
		value = fmt.Sprintf(`\fR=\fI%s\fR`, roff(f.FormatPlaceHolder()))
	}
	p.printf(".TP\n\\fB%s\\fR%s", roff(name), value)
	help := f.Help
	if f.Default != "" && !strings.Contains(help, "Default: ") {
		help += " Default: " + f.Default + "."
	}
	p.text(help)
}

// sameFlag reports whether the flags of two commands have the same name and help.
func sameFlag(a, b *kong.Flag) bool { return a.Name == b.Name && a.Help == b.Help }

// commonFlags returns the flags that at least commonUses commands have, sorted by name.
func commonFlags(leaves []*kong.Node) []*kong.Flag {
	var list []*kong.Flag
	for _, leaf := range leaves {
		for _, group := range leaf.AllFlags(true) {
			for _, f := range group {
				if slices.ContainsFunc(list, func(c *kong.Flag) bool { return sameFlag(c, f) }) {
					continue
				}
				uses := 0
				for _, other := range leaves {
					for _, flags := range other.AllFlags(true) {
						if slices.ContainsFunc(flags, func(o *kong.Flag) bool { return sameFlag(o, f) }) {
							uses++
						}
					}
				}
				if uses >= commonUses {
					list = append(list, f)
				}
			}
		}
	}
	slices.SortFunc(list, func(a, b *kong.Flag) int { return cmp.Compare(a.Name, b.Name) })
	return list
}
