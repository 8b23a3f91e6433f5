package account_test

import (
	"strings"
	"testing"
	"time"

	"github.com/certvault/certvault/internal/account"
	"github.com/certvault/certvault/internal/audit"
	"github.com/certvault/certvault/internal/colour"
	"github.com/certvault/certvault/internal/db"
	"github.com/certvault/certvault/internal/db/dbtest"
	"github.com/certvault/certvault/internal/fault"
)

func TestColour(t *testing.T) {
	t.Parallel()
	dbtest.Each(t, func(t *testing.T, d *db.DB) {
		ctx := t.Context()
		s := account.New(d, time.Now, cheap)
		one, err := s.CreateInstitution(ctx, institution("One", "ONE"))
		if err != nil {
			t.Fatal(err)
		}
		other, err := s.CreateInstitution(ctx, institution("Other", "OTH"))
		if err != nil {
			t.Fatal(err)
		}
		if err := s.SetColour(ctx, one.ID, " #1A237E "); err != nil {
			t.Fatal(err)
		}
		profile, err := s.PublicProfile(ctx, one.ID)
		if err != nil || profile.Colour != "#1a237e" {
			t.Fatalf("the profile is %+v, error %v, want the colour #1a237e", profile, err)
		}
		// #1a237e has too little contrast to a dark page, so a lighter shade is shown there.
		if b := profile.Brand(); b.Day.String() != "#1a237e" || b.Night == b.Day || colour.Contrast(b.Night, colour.DarkBackground) < colour.Graphic {
			t.Errorf("the brand is %+v, want #1a237e for Day and another shade with enough contrast for Night", b)
		}
		for text, want := range map[string]string{
			"#ffcc00": "#ffcc00 is too light for a white page: its contrast is 1.5:1, and 3:1 is required",
			"#fff":    "a # and six digits", "red": "a # and six digits",
			`#0b5d4b"/><script>`: "a # and six digits", "#ffffff": "The nearest shade that is dark enough is #949494.",
		} {
			if err := s.SetColour(ctx, one.ID, text); !fault.Is(err, fault.Invalid) || !strings.Contains(err.Error(), want) {
				t.Errorf("setting the colour %s: error = %v, want fault.Invalid with %q", text, err, want)
			}
		}
		if profile, err = s.PublicProfile(ctx, other.ID); err != nil || profile.Colour != "" || profile.Brand() != nil {
			t.Errorf("the profile of the other institution is %+v, error %v, want no colour", profile, err)
		}
		if err := s.SetColour(ctx, one.ID, ""); err != nil {
			t.Fatal(err)
		}
		if profile, err = s.PublicProfile(ctx, one.ID); err != nil || profile.Brand() != nil {
			t.Errorf("the profile after the colour was removed is %+v, error %v, want no brand", profile, err)
		}
		if err := s.SetColour(ctx, 999, "#0b5d4b"); !fault.Is(err, fault.NotFound) {
			t.Errorf("setting the colour of an unknown institution: error = %v, want fault.NotFound", err)
		}
		list, _, err := audit.New(d).List(ctx, one.ID, audit.Filter{Action: string(audit.InstitutionChanged)}, "", 10)
		if err != nil || len(list) != 2 {
			t.Errorf("the recorded changes are %+v, error %v, want two", list, err)
		}
	})
}

// CheckColour accepts the shades that it suggests.
func TestSuggestedColoursAreAccepted(t *testing.T) {
	t.Parallel()
	for _, text := range []string{"#ffcc00", "#ffffff", "#00ff00", "#ff9999", "#e0e0e0"} {
		_, err := account.CheckColour(text)
		if err == nil {
			t.Errorf("the colour %s is accepted, want an error with a darker shade", text)
			continue
		}
		suggested := err.Error()[strings.LastIndexByte(err.Error(), '#'):]
		if _, err := account.CheckColour(strings.TrimSuffix(suggested, ".")); err != nil {
			t.Errorf("the shade %s, suggested for %s, is refused: %v", suggested, text, err)
		}
	}
}
