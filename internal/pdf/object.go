package pdf

import (
	"iter"
	"math"
	"slices"
	"strconv"
	"strings"
)

// Object is one of the objects of ISO 32000-2, 7.3: Boolean, Integer, Real,
// String, Name, Array, *Dict, *Stream or Ref, and *Placeholder in written
// objects. The null object is the nil Object.
//
// The objects of a Document are shared: copy an object before you change it.
type Object interface{ object() }

// Boolean is a boolean object (7.3.2).
type Boolean bool

// Integer is an integer object (7.3.3).
type Integer int64

// Real is a real number (7.3.3), stored as the text of its token, so that a
// copied value is written exactly as it was read.
type Real string

// String is a string object (7.3.4): its decrypted bytes.
type String string

// Name is a name object (7.3.5) without its solidus and with #xx decoded.
type Name string

// Array is an array object (7.3.6).
type Array []Object

// Ref is an indirect reference (7.3.10). The zero Ref refers to no object.
type Ref struct{ Number, Generation int }

// String returns the reference in PDF syntax.
func (r Ref) String() string {
	return strconv.Itoa(r.Number) + " " + strconv.Itoa(r.Generation) + " R"
}

// Entry is a key and a value of a dictionary.
type Entry struct {
	Key   Name
	Value Object
}

// Dict is a dictionary object (7.3.7). Its entries keep the order in which they
// were read or added. A nil *Dict is treated as an empty dictionary.
type Dict struct{ entries []Entry }

// Placeholder is a value whose text is written unchanged and without encryption.
// Its position is recorded when it is written. The /ByteRange and
// /Contents of a signature (12.8.1) are placeholders, because their values depend
// on the written bytes.
type Placeholder struct {
	// Text is the text to write.
	Text []byte
	// Offset is the offset of Text in the complete file. It is set when the
	// object is written.
	Offset int64
}

func (Boolean) object()      {}
func (Integer) object()      {}
func (Real) object()         {}
func (String) object()       {}
func (Name) object()         {}
func (Array) object()        {}
func (Ref) object()          {}
func (*Dict) object()        {}
func (*Stream) object()      {}
func (*Placeholder) object() {}

// NewDict returns a dictionary with the given entries.
func NewDict(entries ...Entry) *Dict { return &Dict{entries: entries} }

// Get returns the value of key, or nil if there is none. If a key occurs more
// than once, Get returns its last value, as common viewers do.
func (d *Dict) Get(key Name) Object {
	if d == nil {
		return nil
	}
	for _, e := range slices.Backward(d.entries) {
		if e.Key == key {
			return e.Value
		}
	}
	return nil
}

// Has reports whether key has a value other than null.
func (d *Dict) Has(key Name) bool { return d.Get(key) != nil }

// Set sets the value of key and returns d. An existing key keeps its position, and
// its duplicates are removed.
func (d *Dict) Set(key Name, value Object) *Dict {
	at := -1
	kept := d.entries[:0]
	for _, e := range d.entries {
		if e.Key == key {
			if at >= 0 {
				continue
			}
			at = len(kept)
		}
		kept = append(kept, e)
	}
	d.entries = kept
	if at >= 0 {
		d.entries[at].Value = value
	} else {
		d.entries = append(d.entries, Entry{key, value})
	}
	return d
}

// Delete removes key.
func (d *Dict) Delete(key Name) {
	d.entries = slices.DeleteFunc(d.entries, func(e Entry) bool { return e.Key == key })
}

// Clone returns a copy of d that shares its values. The clone of nil is empty.
func (d *Dict) Clone() *Dict {
	if d == nil {
		return &Dict{}
	}
	return &Dict{entries: slices.Clone(d.entries)}
}

// Len returns the number of entries.
func (d *Dict) Len() int {
	if d == nil {
		return 0
	}
	return len(d.entries)
}

// All yields the entries in order.
func (d *Dict) All() iter.Seq2[Name, Object] {
	return func(yield func(Name, Object) bool) {
		if d == nil {
			return
		}
		for _, e := range d.entries {
			if !yield(e.Key, e.Value) {
				return
			}
		}
	}
}

// Number returns v as a number object with at most five decimal places and no
// trailing zeros. A value that is not finite becomes 0.
func Number(v float64) Object {
	if math.IsNaN(v) || math.IsInf(v, 0) {
		return Integer(0)
	}
	if v == math.Trunc(v) && math.Abs(v) < 1<<53 {
		return Integer(int64(v))
	}
	text := strconv.FormatFloat(v, 'f', 5, 64)
	text = strings.TrimRight(strings.TrimRight(text, "0"), ".")
	if text == "" || text == "-0" || text == "-" {
		return Integer(0)
	}
	return Real(text)
}

// Float64 returns the value of the number. If the text is not a valid number,
// Float64 skips all signs at its beginning and returns the value of the longest
// valid prefix of the rest, or 0 if there is none. The value is negative if one
// of the signs is a minus.
func (r Real) Float64() float64 {
	if v, err := strconv.ParseFloat(string(r), 64); err == nil && isPlainNumber(string(r)) {
		return v
	}
	text := string(r)
	negative := false
	for text != "" && (text[0] == '-' || text[0] == '+') {
		negative = negative || text[0] == '-'
		text = text[1:]
	}
	end, dot := 0, false
	for end < len(text) && (isDigit(text[end]) || text[end] == '.' && !dot) {
		dot = dot || text[end] == '.'
		end++
	}
	v, err := strconv.ParseFloat(text[:end], 64)
	if err != nil && !math.IsInf(v, 0) {
		return 0
	}
	if negative {
		return -v
	}
	return v
}

// isPlainNumber reports whether text has only digits, points and signs.
// strconv.ParseFloat also accepts other forms, such as 1e3, 0x1p-2 or inf.
func isPlainNumber(text string) bool {
	for i := range len(text) {
		if c := text[i]; !isDigit(c) && c != '.' && c != '-' && c != '+' {
			return false
		}
	}
	return true
}
