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

// entryName returns the name of an entry of an archive, and reports whether the entry is a file, and
// not a folder or a system file. If the entry has no UTF-8 flag, its name is the name in the extra
// field. If there is no such field and the name is valid UTF-8, it is read as UTF-8, because macOS
// does not set the flag. Otherwise the name is read in code page 437, the default encoding of the
// format (APPNOTE.TXT, appendix D).
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

// extraName returns the name in the extra field. It returns "" if there is no valid field, or if the
// checksum in the field is not the checksum of the entry's name.
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
