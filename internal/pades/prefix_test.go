package pades

import "testing"

func TestPrefixOfReferenceID(t *testing.T) {
	t.Parallel()
	for id, want := range map[string]string{
		"NWU-0123456789ABCDEF": "NWU", "A1-0": "A1", "ABCDEFGHIJ-0": "ABCDEFGHIJ", "": "", "NWU": "", "-0": "", "A-0": "", "ABCDEFGHIJK-0": "", "nwu-0": "", "N U-0": "", "N\u0423U-0": "",
	} {
		if got := prefixOf(id); got != want {
			t.Errorf("prefixOf(%q) = %q, want %q", id, got, want)
		}
	}
}
