// Package recovery owns the recovery sheet: one page of plain text with the two secrets that are not in
// the database, the master key and the identity of the signing keys. Each line of a secret has a
// checksum, so that Parse finds typing errors. The package does not read or write files.
package recovery

import (
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"strings"
	"time"
)

// Sheet is the content of a recovery sheet.
type Sheet struct {
	// Installation is the id of the installation, or "" if it has none yet.
	Installation string
	// BaseURL is the address of the vault, or "" if it is unknown.
	BaseURL string
	// At is the time at which the sheet was made.
	At time.Time
	// Root is the SHA-256 fingerprint of the current root certificate, or "" if there is none.
	Root string
	// MasterKey has 64 hexadecimal digits.
	MasterKey string
	// Identity is an X25519 identity of age.
	Identity string
}

const (
	// lineSize is the number of characters of a secret in a line, and groupSize the number in a group.
	lineSize, groupSize = 16, 4
	// checkSize is the number of hexadecimal digits of a checksum.
	checkSize = 4
	// masterSize and identitySize are the numbers of characters of the secrets on the sheet. The sheet
	// has the identity without identityPrefix.
	masterSize, identitySize = 64, 58
	identityPrefix           = "AGE-SECRET-KEY-1"
)

// part is a secret on the sheet. The name of a line is the letter of the part and the number of the
// line, such as M1.
type part struct {
	letter string
	title  string
	size   int
}

var (
	masterPart   = part{"M", "Master key", masterSize}
	identityPart = part{"K", "Identity of the signing keys", identitySize}
)

// lines returns the number of lines of the secret.
func (p part) lines() int { return (p.size + lineSize - 1) / lineSize }

// label returns the name of a line. line counts from 0.
func (p part) label(line int) string { return fmt.Sprintf("%s%d", p.letter, line+1) }

// lineSize returns the number of characters of the secret in a line. line counts from 0.
func (p part) lineSize(line int) int { return min(lineSize, p.size-line*lineSize) }

// errSecret means that a secret of a Sheet has the wrong length or prefix.
var errSecret = errors.New("a secret does not have the form for a recovery sheet")

// Text returns the sheet as plain text.
func (s *Sheet) Text() (string, error) {
	identity, ok := strings.CutPrefix(strings.ToUpper(s.Identity), identityPrefix)
	if !ok || len(identity) != identitySize || len(s.MasterKey) != masterSize {
		return "", errSecret
	}
	var b strings.Builder
	write := func(format string, args ...any) { _, _ = fmt.Fprintf(&b, format+"\n", args...) }
	write("CERTVAULT RECOVERY SHEET\n")
	write("Keep this page where only the operators of the vault can reach it, apart from the")
	write("vault and its backups. With this page and a copy of the database, anyone can sign")
	write("certificates in the name of its institutions.\n")
	field := func(name, value string) {
		if value == "" {
			value = "unknown"
		}
		write("%-13s %s", name, value)
	}
	field("Installation", s.Installation)
	field("Address", s.BaseURL)
	field("Printed", s.At.UTC().Format("2006-01-02 15:04 UTC"))
	first, second := s.Root, ""
	if half := len(s.Root) / 2; half > 0 {
		first, second = s.Root[:half+1], s.Root[half+1:]
	}
	field("Root SHA-256", first)
	if second != "" {
		write("%-13s %s", "", second)
	}
	masterPart.write(write, strings.ToUpper(s.MasterKey))
	identityPart.write(write, identity)
	write("\nThe last group of each line is its checksum.\n")
	write("To restore:\n")
	write("1. Restore the database and the files of the vault from a backup.")
	write("2. Type the lines M1 to K4 into a file, with their names. Spaces and upper or lower")
	write("   case do not matter.")
	write("3. Run certvault key recover --sheet FILE, with the --data and --database of the")
	write("   vault. It names each line with an error, and creates the two files of the keys.")
	write("4. Delete the typed file, run certvault doctor, and start the vault.")
	return b.String(), nil
}

func (p part) write(write func(format string, args ...any), secret string) {
	write("\n%s\n", p.title)
	for i := range p.lines() {
		line := secret[i*lineSize:][:p.lineSize(i)]
		var groups []string
		for rest := line; rest != ""; rest = rest[min(groupSize, len(rest)):] {
			groups = append(groups, rest[:min(groupSize, len(rest))])
		}
		write("%s   %-*s   %s", p.label(i), lineSize+lineSize/groupSize-1, strings.Join(groups, " "), checksum(p.label(i), line))
	}
}

// checksum returns the checksum of a line.
func checksum(label, line string) string {
	sum := sha256.Sum256([]byte("certvault recovery sheet " + label + " " + line))
	return strings.ToUpper(hex.EncodeToString(sum[:])[:checkSize])
}

// Parse reads the secrets from a sheet that a person typed. It ignores lines that do not begin with a
// name such as M1. The error lists the lines with errors.
func Parse(text string) (masterKey, identity string, err error) {
	lines := map[string]string{}
	var errs []error
	for line := range strings.Lines(text) {
		words := strings.Fields(strings.ToUpper(line))
		if len(words) == 0 || !isLabel(words[0]) {
			continue
		}
		label := words[0]
		if _, twice := lines[label]; twice {
			errs = append(errs, fmt.Errorf("line %s occurs twice", label))
		}
		lines[label] = strings.Join(words[1:], "")
	}
	read := func(p part) string {
		secret, err := p.read(lines)
		errs = append(errs, err)
		return secret
	}
	masterKey, identity = strings.ToLower(read(masterPart)), identityPrefix+read(identityPart)
	if err := errors.Join(errs...); err != nil {
		return "", "", err
	}
	return masterKey, identity, nil
}

func isLabel(word string) bool {
	for _, p := range []part{masterPart, identityPart} {
		for i := range p.lines() {
			if word == p.label(i) {
				return true
			}
		}
	}
	return false
}

// read returns the secret from its lines.
func (p part) read(lines map[string]string) (secret string, err error) {
	var errs []error
	for i := range p.lines() {
		label, size := p.label(i), p.lineSize(i)
		text, ok := lines[label]
		switch {
		case !ok:
			errs = append(errs, fmt.Errorf("line %s is missing", label))
		case len(text) != size+checkSize:
			errs = append(errs, fmt.Errorf("line %s has %d characters after its name; it must have %d", label, len(text), size+checkSize))
		case checksum(label, text[:size]) != text[size:]:
			errs = append(errs, fmt.Errorf("line %s has a typing error: its checksum does not match", label))
		default:
			secret += text[:size]
		}
	}
	return secret, errors.Join(errs...)
}
