package bulkimport

import (
	"archive/zip"
	"encoding/binary"
	"hash/crc32"
	"strings"
	"unicode/utf8"

	"golang.org/x/text/encoding/charmap"
)

const (
	// flagUTF8 is the flag of an entry whose name is in UTF-8 (APPNOTE.TXT, 4.4.4).
	flagUTF8 = 0x800
	// unicodePath is the extra field that contains a name in UTF-8 (APPNOTE.TXT, 4.6.9).
	unicodePath = 0x7075
	// unicodePathHead is the length of the version and the checksum before the name in that field.
	unicodePathHead = 5
)

// entryName returns the name of an archive's entry, and whether the entry is a file that a person
// added, and not a folder or a system file. If the entry has no UTF-8 flag, its name is the name in
// the extra field. If there is no such field, the name is read as UTF-8 if it is valid UTF-8,
// because macOS writes such names. Otherwise the name is read in code page 437, which is the
// default of the format and which Windows writes (APPNOTE.TXT, appendix D).
func entryName(f *zip.File) (name string, isFile bool) {
	switch name = f.Name; {
	case f.Flags&flagUTF8 != 0 && utf8.ValidString(name):
	case extraName(f) != "":
		name = extraName(f)
	case !utf8.ValidString(name):
		if decoded, err := charmap.CodePage437.NewDecoder().String(name); err == nil {
			name = decoded
		}
	}
	if strings.HasSuffix(name, "/") || strings.HasSuffix(name, `\`) || f.FileInfo().IsDir() {
		return name, false
	}
	return name, !isSystemFile(strings.ReplaceAll(name, `\`, "/"))
}

// extraName returns the name in the extra field. It returns "" if there is none, or if the field
// belongs to another name.
func extraName(f *zip.File) string {
	for extra := f.Extra; len(extra) >= 4; {
		tag, size := binary.LittleEndian.Uint16(extra), int(binary.LittleEndian.Uint16(extra[2:]))
		if extra = extra[4:]; size > len(extra) {
			return ""
		}
		field := extra[:size]
		extra = extra[size:]
		if tag != unicodePath || size <= unicodePathHead || field[0] != 1 ||
			binary.LittleEndian.Uint32(field[1:]) != crc32.ChecksumIEEE([]byte(f.Name)) {
			continue
		}
		if name := string(field[unicodePathHead:]); utf8.ValidString(name) {
			return name
		}
	}
	return ""
}
