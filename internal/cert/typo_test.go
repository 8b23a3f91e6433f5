package cert_test

import (
	"strings"
	"testing"

	"github.com/certvault/certvault/internal/cert"
)

func TestFindTypo(t *testing.T) {
	t.Parallel()
	for typed, want := range map[string]cert.Typo{
		"NWU-7K3M9QX2P4RTVW8Z":         {Before: "NWU-7K3M9QX2P4RTVW8Z", Count: 16},
		" nwu 7k3m 9qx2 p4rt vw8z ":    {Before: "nwu 7k3m 9qx2 p4rt vw8z", Count: 16},
		"NWU-7K3M-9QX2-P4RT-VWOI":      {Before: "NWU-7K3M-9QX2-P4RT-VWOI", Count: 16},
		"UU-7K3M9QX2P4RTVW8Z":          {Before: "UU-7K3M9QX2P4RTVW8Z", Count: 16},
		"NWU-7K3M9QX2P4RTVW8U":         {Mistake: cert.WrongCharacter, Before: "NWU-7K3M9QX2P4RTVW8", Character: "U"},
		"nwu-7k3m9qx2p4rtvu8z":         {Mistake: cert.WrongCharacter, Before: "nwu-7k3m9qx2p4rtv", Character: "u", After: "8z"},
		"NWU-7K3M9QX2_P4RTVW8Z":        {Mistake: cert.WrongCharacter, Before: "NWU-7K3M9QX2", Character: "_", After: "P4RTVW8Z"},
		"NWÜ-7K3M9QX2P4RTVW8Z":         {Mistake: cert.WrongCharacter, Before: "NW", Character: "Ü", After: "-7K3M9QX2P4RTVW8Z"},
		"NWU\u22127K3M9QX2P4RTVW8":     {Mistake: cert.TooShort, Before: "NWU\u22127K3M9QX2P4RTVW8", Count: 15},
		"NWU-7K3M9QX2P4RTVW8ZZ":        {Mistake: cert.TooLong, Before: "NWU-7K3M9QX2P4RTVW8ZZ", Count: 17},
		"7K3M9QX2P4RTVW8Z":             {Mistake: cert.TooShort, Before: "7K3M9QX2P4RTVW8Z", Count: 14},
		"NWU7K3M9QX2P4RTVW8Z":          {Before: "NWU7K3M9QX2P4RTVW8Z", Count: 16},
		"":                             {Mistake: cert.TooShort},
		"\xff":                         {Mistake: cert.WrongCharacter, Character: "\uFFFD"},
		strings.Repeat("A", 129):       {Mistake: cert.TooLong, Count: 129},
		"ABCDEFGHJK7K3M9QX2P4RTVW8ZZ7": {Mistake: cert.TooLong, Before: "ABCDEFGHJK7K3M9QX2P4RTVW8ZZ7", Count: 18},
	} {
		if got := cert.FindTypo(typed); got != want {
			t.Errorf("FindTypo(%q) = %+v, want %+v", typed, got, want)
		}
	}
}
