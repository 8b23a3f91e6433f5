package account_test

import (
	"bytes"
	"image"
	"image/color"
	"image/jpeg"
	"image/png"
	"net/url"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/certvault/certvault/internal/account"
	"github.com/certvault/certvault/internal/db"
	"github.com/certvault/certvault/internal/db/dbtest"
	"github.com/certvault/certvault/internal/fault"
)

func TestPublicSettings(t *testing.T) {
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
		closed := account.PublicProfile{Name: "One", Slug: "one", Prefix: "ONE"}
		profile, err := s.PublicProfile(ctx, one.ID)
		if err != nil || *profile != closed {
			t.Fatalf("the default profile is %+v, error %v, want only the name, the slug and the prefix", profile, err)
		}
		open := account.Public{AllowImage: true, AllowDownload: true, Contact: "  registry@example.org ", LinkedIn: " https://www.linkedin.com/company/1234567/admin/ "}
		if err := s.SetPublic(ctx, one.ID, open); err != nil {
			t.Fatal(err)
		}
		open.Contact, open.LinkedIn = "registry@example.org", "1234567"
		if profile, err = s.PublicProfile(ctx, one.ID); err != nil || profile.Public != open {
			t.Errorf("the profile is %+v, error %v, want the settings %+v", profile, err, open)
		}
		for name, p := range map[string]account.Public{
			"a hidden name and a public picture":  {HideName: true, AllowImage: true},
			"a hidden name and a public file":     {HideName: true, AllowDownload: true},
			"a page on LinkedIn without a number": {LinkedIn: "https://www.linkedin.com/company/northwind"},
			"an address without a page":           {LinkedIn: "https://www.linkedin.com/company/"},
			"a page on another site":              {LinkedIn: "https://linkedin.com.example.org/company/1234567"},
			"two lines":                           {Contact: "a\nb"},
			"NUL":                                 {Contact: "a\x00b"},
			"too long":                            {Contact: strings.Repeat("ä", 256)},
		} {
			if err := s.SetPublic(ctx, one.ID, p); !fault.Is(err, fault.Invalid) {
				t.Errorf("%s: error = %v, want fault.Invalid", name, err)
			}
		}
		if profile, err = s.PublicProfile(ctx, one.ID); err != nil || profile.Public != open {
			t.Errorf("the profile after the refused changes is %+v, error %v, want the earlier settings", profile, err)
		}
		if profile, err = s.PublicProfile(ctx, other.ID); err != nil || profile.Public != (account.Public{}) {
			t.Errorf("the profile of the other institution is %+v, error %v, want the default settings", profile, err)
		}
		if _, err := s.PublicProfile(ctx, 999); !fault.Is(err, fault.NotFound) {
			t.Errorf("reading the profile of an unknown institution: error = %v, want fault.NotFound", err)
		}
	})
}

func picture(t *testing.T, w, h int, asJPEG bool) []byte {
	t.Helper()
	m := image.NewNRGBA(image.Rect(0, 0, w, h))
	for i := range m.Pix {
		m.Pix[i] = byte(i * 7)
	}
	m.Set(0, 0, color.Black)
	var b bytes.Buffer
	var err error
	if asJPEG {
		err = jpeg.Encode(&b, m, nil)
	} else {
		err = png.Encode(&b, m)
	}
	if err != nil {
		t.Fatal(err)
	}
	return b.Bytes()
}

func TestLogo(t *testing.T) {
	t.Parallel()
	wide := picture(t, 1600, 400, false)
	var bomb bytes.Buffer
	if err := png.Encode(&bomb, image.NewGray(image.Rect(0, 0, 4096, 4096))); err != nil {
		t.Fatal(err)
	}
	dbtest.Each(t, func(t *testing.T, d *db.DB) {
		ctx := t.Context()
		s := account.New(d, time.Now, cheap)
		inst, err := s.CreateInstitution(ctx, institution("One", "ONE"))
		if err != nil {
			t.Fatal(err)
		}
		hidden := []byte("<script>alert(1)</script>")
		for _, tc := range []struct {
			file       []byte
			wide, high int
		}{
			{append(slices.Clip(wide), hidden...), 480, 120},
			{picture(t, 100, 800, true), 16, 128},
			{picture(t, 30, 20, false), 30, 20},
			{picture(t, 4000, 2, false), 480, 1},
		} {
			if err := s.SetLogo(ctx, inst.ID, tc.file); err != nil {
				t.Fatal(err)
			}
			profile, err := s.PublicProfile(ctx, inst.ID)
			if err != nil || len(profile.Logo) != 64 {
				t.Fatalf("the digest of the logo is %q, error %v, want 64 hexadecimal digits", profile.Logo, err)
			}
			stored, err := s.Logo(ctx, "one", profile.Logo)
			if err != nil {
				t.Fatal(err)
			}
			m, err := png.DecodeConfig(bytes.NewReader(stored))
			if err != nil || m.Width != tc.wide || m.Height != tc.high || bytes.Contains(stored, hidden) {
				t.Errorf("the stored logo is %+v, error %v, want %d x %d pixels without the bytes after the picture", m, err, tc.wide, tc.high)
			}
			if _, err := s.Logo(ctx, "other", profile.Logo); !fault.Is(err, fault.NotFound) {
				t.Errorf("reading the logo under another slug: error = %v, want fault.NotFound", err)
			}
		}
		for name, file := range map[string][]byte{
			"empty": {}, "text": []byte("no picture"), "SVG": []byte("<svg xmlns='http://www.w3.org/2000/svg'/>"), "too many pixels": bomb.Bytes(),
			"truncated": picture(t, 300, 300, false)[:200], "too wide": picture(t, 5000, 1, false), "file too large": make([]byte, 2<<20),
		} {
			if err := s.SetLogo(ctx, inst.ID, file); !fault.Is(err, fault.Invalid) {
				t.Errorf("%s: error = %v, want fault.Invalid", name, err)
			}
		}
		if err := s.SetLogo(ctx, inst.ID, nil); err != nil {
			t.Fatal(err)
		}
		if profile, err := s.PublicProfile(ctx, inst.ID); err != nil || profile.Logo != "" {
			t.Errorf("the digest after the logo was removed is %q, want none; error %v", profile.Logo, err)
		}
		for _, digest := range []string{"", "xyz", strings.Repeat("0", 64)} {
			if _, err := s.Logo(ctx, "one", digest); !fault.Is(err, fault.NotFound) {
				t.Errorf("reading the logo with the digest %q: error = %v, want fault.NotFound", digest, err)
			}
		}
	})
}

func TestAddToLinkedIn(t *testing.T) {
	t.Parallel()
	f, expiresOn := account.PublicProfile{Name: "A & B"}, ""
	address := func() url.Values {
		u, err := url.Parse(f.AddToLinkedIn("BSc Physics", "2026-03-01", expiresOn, "https://vault.example/verify/NWU-1", "NWU-1"))
		if err != nil || u.Host != "www.linkedin.com" || u.Path != "/profile/add" {
			t.Errorf("the address is %v, error %v, want LinkedIn's form", u, err)
		}
		return u.Query()
	}
	want := url.Values{
		"startTask": {"CERTIFICATION_NAME"}, "name": {"BSc Physics"}, "organizationName": {"A & B"}, "issueYear": {"2026"}, "issueMonth": {"3"},
		"certUrl": {"https://vault.example/verify/NWU-1"}, "certId": {"NWU-1"},
	}
	if got := address(); !reflect.DeepEqual(got, want) {
		t.Errorf("the form without a LinkedIn page = %v, want %v", got, want)
	}
	f.LinkedIn = "1234567"
	want.Set("organizationId", "1234567")
	if got := address(); !reflect.DeepEqual(got, want) {
		t.Errorf("the form with a LinkedIn page = %v, want %v", got, want)
	}
	expiresOn = "2029-12-31"
	want.Set("expirationYear", "2029")
	want.Set("expirationMonth", "12")
	if got := address(); !reflect.DeepEqual(got, want) {
		t.Errorf("the form of a certificate that expires = %v, want %v", got, want)
	}
}
