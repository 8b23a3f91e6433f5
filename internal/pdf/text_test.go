package pdf

import "testing"

func TestTextString(t *testing.T) {
	t.Parallel()
	for _, test := range []struct {
		text string
		want String
	}{
		{"", ""},
		{"Grüße", "Gr\xfc\xdfe"},
		{"“€” – ﬁn", "\x8d\xa0\x8e \x85 \x93n"},
		{"Łódź", "\xfe\xff\x01\x41\x00\xf3\x00d\x01\x7a"},
		{"证书 😀", "\xfe\xff\x8b\xc1\x4e\x66\x00 \xd8\x3d\xde\x00"},
		{"þÿ looks like UTF-16", "\xfe\xff\x00\xfe\x00\xff\x00 \x00l\x00o\x00o\x00k\x00s\x00 \x00l\x00i\x00k\x00e\x00 \x00U\x00T\x00F\x00-\x001\x006"},
	} {
		got := TextString(test.text)
		if got != test.want {
			t.Errorf("TextString(%q) = %q, want %q", test.text, got, test.want)
		}
		if back := got.Text(); back != test.text {
			t.Errorf("encoding and decoding %q returned %q, want the same text", test.text, back)
		}
	}
}

func TestText(t *testing.T) {
	t.Parallel()
	for text, want := range map[String]string{
		"\xff\xfeA\x00\xac\x20":                   "A€",
		"\xef\xbb\xbfZürich \xff":                 "Zürich \ufffd",
		"\xfe\xff\x00A\x00":                       "A",
		"\xfe\xff\xd8\x00\x00A":                   "\ufffdA",
		"\xfe\xff\x00\x1b\x00e\x00n\x00\x1b\x00A": "A",
		"\xef\xbb\xbfa\x1ben\x1bb\x1bde\x1bc":     "abc",
		"\xef\xbb\xbfa\x1bb":                      "ab",
		"\x7f\xad":                                "\ufffd\ufffd",
	} {
		if got := text.Text(); got != want {
			t.Errorf("%q: got %q, want %q", text, got, want)
		}
	}
}
