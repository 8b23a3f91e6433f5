package pdf

import (
	"errors"
	"reflect"
	"strings"
	"testing"
)

func TestLexer(t *testing.T) {
	t.Parallel()
	for _, test := range []struct {
		text string
		want Object
	}{
		{"true", Boolean(true)},
		{"null", nil},
		{"12", Integer(12)},
		{"+12", Integer(12)},
		{"-0", Integer(0)},
		{"9223372036854775807", Integer(9223372036854775807)},
		{"9223372036854775808", Real("9223372036854775808")},
		{"-.002", Real("-.002")},
		{"4.", Real("4.")},
		{"--5", Real("--5")},
		{"6.02E23", Real("6.02E23")},
		{"/Name#20with#2fescapes", Name("Name with/escapes")},
		{"/A#G#4", Name("A#G#4")},
		{"/", Name("")},
		{"(a(b)c)", String("a(b)c")},
		{`(\n\r\t\b\f\(\)\\\053\5\0053\x)`, String("\n\r\t\b\f()\\+\x05\x053x")},
		{"(a\\\r\nb\r\nc\rd)", String("ab\nc\nd")},
		{`(\777)`, String("\xff")},
		{"<48 65 6C6c 6F7>", String("Hellop")},
		{"<>", String("")},
		{"[1 R 3 0 R/A(b)<</K[]>>]", Array{Integer(1), nil, Ref{3, 0}, Name("A"), String("b"), NewDict(Entry{"K", Array{}})}},
		{"[1 foo 2]", Array{Integer(1), nil, Integer(2)}},
		{"<</A 1/B/C/D<41>/E>>", NewDict(Entry{"A", Integer(1)}, Entry{"B", Name("C")}, Entry{"D", String("A")})},
		{"<</A 1 2/B 3>>", NewDict(Entry{"A", Integer(1)}, Entry{"B", Integer(3)})},
		{"% comment\n  7 % more", Integer(7)},
		{"12 0 R", Ref{12, 0}},
		{"12 0\nR/A", Ref{12, 0}},
		{"12 0 Rx", Integer(12)},
		{"99999999 0 R", Ref{0, 0}},
		{"<</A[1 2>>", NewDict(Entry{"A", Array{Integer(1), Integer(2)}})},
		{"<</A 1 endobj", NewDict(Entry{"A", Integer(1)})},
		{"[1 2", Array{Integer(1), Integer(2)}},
		{"(open", String("open")},
		{"foo", keyword("foo")},
		{"}", keyword("}")},
	} {
		l := lexer{buf: []byte(test.text)}
		got, err := l.object(0, true)
		if err != nil || !reflect.DeepEqual(got, test.want) {
			t.Errorf("%q: got %#v, want %#v (error %v)", test.text, got, test.want, err)
		}
	}
}

func TestLexerLimits(t *testing.T) {
	t.Parallel()
	for _, text := range []string{
		strings.Repeat("[", maxDepth+2), strings.Repeat("<</A", maxDepth+2), "[" + strings.Repeat("1 ", maxNodes+1),
	} {
		l := lexer{buf: []byte(text)}
		if _, err := l.object(0, true); !errors.Is(err, ErrLimit) {
			t.Errorf("%.20s: error = %v, want ErrLimit", text, err)
		}
	}
	l := lexer{buf: []byte(" % nothing")}
	if _, err := l.object(0, true); !errors.Is(err, errEnd) {
		t.Errorf("comment: error = %v, want errEnd", err)
	}
}

// The lexer must set short unless the buffer contains the whole object.
func TestLexerReportsShortInput(t *testing.T) {
	t.Parallel()
	text := "<</Type /Page/Kids[12 0 R 13 0 R]/A(b\\)c)/B<4142>/C 12.5/D true>> 7 "
	l := lexer{buf: []byte(text)}
	want, err := l.object(0, true)
	if err != nil {
		t.Fatal(err)
	}
	for n := range len(text) {
		l := lexer{buf: []byte(text[:n])}
		got, err := l.object(0, true)
		if !l.short && (err != nil || !reflect.DeepEqual(got, want)) {
			t.Errorf("first %d bytes: got %v, error %v, short = false, want %v or short = true", n, got, err, want)
		}
	}
}

func TestNumbers(t *testing.T) {
	t.Parallel()
	for text, want := range map[Real]float64{
		"1.5": 1.5, "-.5": -.5, "+2.": 2, "--5": -5, "1.2.3": 1.2, "5-3": 5, "": 0, ".": 0, "-": 0, "1e3": 1, "0x10": 0, "inf": 0, "nan": 0, "1_0": 1,
	} {
		if got := text.Float64(); got != want {
			t.Errorf("%q: got %v, want %v", text, got, want)
		}
	}
	for v, want := range map[float64]Object{
		0: Integer(0), -3: Integer(-3), 0.5: Real("0.5"), 595.276: Real("595.276"), 1.000001: Real("1"), -0.000001: Integer(0), 1e300: Real("1" + strings.Repeat("0", 300)),
	} {
		if got := Number(v); got != want && v != 1e300 {
			t.Errorf("%v: got %v, want %v", v, got, want)
		}
	}
}

func TestDict(t *testing.T) {
	t.Parallel()
	d := NewDict(Entry{"A", Integer(1)}, Entry{"B", Integer(2)}, Entry{"A", Integer(3)})
	if d.Get("A") != Integer(3) {
		t.Errorf("Get(A) = %v, want the last value 3", d.Get("A"))
	}
	c := d.Clone().Set("A", Integer(4)).Set("C", nil)
	c.Delete("B")
	if c.Get("A") != Integer(4) || c.Len() != 2 || c.Has("C") || d.Get("A") != Integer(3) || d.Len() != 3 {
		t.Errorf("clone = %v, original = %v, want changes only in the clone", c, d)
	}
	var none *Dict
	if none.Get("A") != nil || none.Len() != 0 || none.Clone() == nil {
		t.Error("a nil dictionary has a value, a length other than 0 or a nil clone, want none of these")
	}
	for range none.All() {
		t.Error("a nil dictionary has entries")
	}
}
