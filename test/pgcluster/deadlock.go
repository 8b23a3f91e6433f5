package main

import (
	"bufio"
	"errors"
	"fmt"
	"os"
	"regexp"
	"strings"
)

// onPurpose is a comment in the statements of a test that provokes a deadlock.
const onPurpose = "/* deadlock on purpose */"

// entry matches the first line of an entry of the server's log, with the default log_line_prefix. A
// line that does not match continues an entry.
var entry = regexp.MustCompile(`^\d{4}-\d\d-\d\d [^[]*(\[\d+\]) (\w+): `)

// maxLine is the maximum length of a line in the server's log.
const maxLine = 16 << 20

// deadlocks returns the reports of deadlocks in the server's log, except those that contain onPurpose.
func (c *cluster) deadlocks() (reports []string, err error) {
	log, err := os.Open(c.log())
	if err != nil {
		return nil, fmt.Errorf("reading the server's log: %w", err)
	}
	defer func() { err = errors.Join(err, log.Close()) }()
	open := map[string]*strings.Builder{} // maps the id of a server process, such as [42], to its incomplete report
	process := ""
	finish := func(process string) {
		if report, ok := open[process]; ok && !strings.Contains(report.String(), onPurpose) {
			reports = append(reports, strings.TrimRight(report.String(), "\n"))
		}
		delete(open, process)
	}
	lines := bufio.NewScanner(log)
	lines.Buffer(nil, maxLine)
	for lines.Scan() {
		if m := entry.FindStringSubmatch(lines.Text()); m != nil {
			process = m[1]
			switch m[2] {
			case "DETAIL", "HINT", "CONTEXT", "STATEMENT", "QUERY", "LOCATION":
			default: // a new entry of the process
				finish(process)
				if strings.Contains(lines.Text(), "deadlock detected") {
					open[process] = &strings.Builder{}
				}
			}
		}
		if report, ok := open[process]; ok {
			report.WriteString(lines.Text() + "\n")
		}
	}
	for process := range open {
		finish(process)
	}
	if err := lines.Err(); err != nil {
		return nil, fmt.Errorf("reading the server's log: %w", err)
	}
	return reports, nil
}
