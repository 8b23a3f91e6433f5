package recipient_test

import (
	"archive/zip"
	"bytes"
	"encoding/json"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/certvault/certvault/internal/cert"
	"github.com/certvault/certvault/internal/db"
	"github.com/certvault/certvault/internal/db/dbtest"
	"github.com/certvault/certvault/internal/fault"
	"github.com/certvault/certvault/internal/recipient"
)

// titles returns the titles of the certificates of a portfolio.
func titles(p *recipient.Portfolio) (list []string) {
	for _, c := range p.Certificates {
		list = append(list, c.Title)
	}
	return list
}

func TestPortfolioEntries(t *testing.T) {
	t.Parallel()
	dbtest.Each(t, func(t *testing.T, d *db.DB) {
		b := open(t, d)
		ctx := t.Context()
		ada := b.user("ada@example.org", true)
		bsc, msc, phd, waiting := b.upload(titled("BSc")), b.upload(titled("MSc")), b.upload(titled("PhD")), b.upload(titled("waiting"))
		foreign := b.upload(titled("foreign"), to("eve@example.org"))
		b.approve(bsc, msc, phd, foreign)
		if err := b.AddEntry(ctx, ada, bsc.UUID); !fault.Is(err, fault.NotFound) {
			t.Errorf("adding to a portfolio that does not exist: error = %v, want fault.NotFound", err)
		}
		if err := b.SavePortfolio(ctx, ada, recipient.PortfolioSettings{DisplayName: " Ada  Obi ", Visible: true}); err != nil {
			t.Fatal(err)
		}
		for _, c := range []*cert.Certificate{waiting, foreign} {
			if err := b.AddEntry(ctx, ada, c.UUID); !fault.Is(err, fault.NotFound) {
				t.Errorf("adding the certificate %s: error = %v, want fault.NotFound", c.Title, err)
			}
		}
		for _, c := range []*cert.Certificate{bsc, msc, phd, msc} {
			if err := b.AddEntry(ctx, ada, c.UUID); err != nil {
				t.Fatal(err)
			}
		}
		check := func(name string, want ...string) *recipient.Portfolio {
			t.Helper()
			own, err := b.Portfolio(ctx, ada)
			if err != nil {
				t.Fatal(err)
			}
			public, err := b.PublicPortfolio(ctx, own.Slug)
			if err != nil {
				t.Fatal(err)
			}
			if !slices.Equal(titles(own), want) || !slices.Equal(titles(public), want) || public.DisplayName != "Ada Obi" {
				t.Errorf("%s: the entries are %v for the person and %v for the public, want %v", name, titles(own), titles(public), want)
			}
			return own
		}
		check("added", "BSc", "MSc", "PhD")
		move := func(c *cert.Certificate, up bool) {
			t.Helper()
			if err := b.MoveEntry(ctx, ada, c.UUID, up); err != nil {
				t.Fatal(err)
			}
		}
		move(phd, true)
		move(phd, true)
		move(phd, true)
		check("moved up to the top", "PhD", "BSc", "MSc")
		move(phd, false)
		move(msc, false)
		check("moved down", "BSc", "PhD", "MSc")
		if err := b.RemoveEntry(ctx, ada, phd.UUID); err != nil {
			t.Fatal(err)
		}
		check("removed", "BSc", "MSc")
		b.move(msc, cert.Revoked)
		check("with a revoked certificate", "BSc", "MSc")
		// After the correction of its address, the certificate no longer belongs to the person.
		if _, err := b.CorrectEmail(ctx, b.inst.ID, bsc.UUID, "zoe@example.org", nil); err != nil {
			t.Fatal(err)
		}
		check("after the correction of an address", "MSc")
		var n int
		if err := d.QueryRowContext(ctx, `SELECT count(*) FROM portfolio_entries`).Scan(&n); err != nil || n != 1 {
			t.Errorf("%d entries are stored, error %v, want 1", n, err)
		}
	})
}

func TestPortfolioAddress(t *testing.T) {
	t.Parallel()
	dbtest.Each(t, func(t *testing.T, d *db.DB) {
		b := open(t, d)
		ctx := t.Context()
		ada, eve := b.user("ada@example.org", true), b.user("eve@example.org", true)
		save := func(person int64, n recipient.PortfolioSettings) error {
			if n.DisplayName == "" {
				n.DisplayName = "Ada"
			}
			n.Visible = true
			return b.SavePortfolio(ctx, person, n)
		}
		for name, n := range map[string]recipient.PortfolioSettings{
			"no name": {DisplayName: " "}, "a long name": {DisplayName: strings.Repeat("ä", 101)}, "a short address": {Slug: "ada"}, "a long address": {Slug: strings.Repeat("a", 41)},
			"other letters": {Slug: "ada_obi"}, "marks": {Slug: "adá-obi"}, "two hyphens": {Slug: "ada--obi"}, "a hyphen at the end": {Slug: "ada-obi-"}, "a slash": {Slug: "ada/obi"},
		} {
			if err := save(ada, n); !fault.Is(err, fault.Invalid) {
				t.Errorf("%s: error = %v, want fault.Invalid", name, err)
			}
		}
		if err := save(ada, recipient.PortfolioSettings{Slug: "Certvault"}); !fault.Is(err, fault.Invalid) || !strings.Contains(err.Error(), "not available") {
			t.Errorf("a reserved word: error = %v, want fault.Invalid and that the address is not available", err)
		}
		if err := save(ada, recipient.PortfolioSettings{DisplayName: strings.Repeat("ä", 100)}); err != nil {
			t.Fatal(err)
		}
		random, err := b.Portfolio(ctx, ada)
		if err != nil || len(random.Slug) != 12 {
			t.Fatalf("the portfolio is %+v, %v, want a random address of 12 characters", random, err)
		}
		works := func(slug string) bool {
			t.Helper()
			_, err := b.PublicPortfolio(ctx, slug)
			if err != nil && !fault.Is(err, fault.NotFound) {
				t.Fatal(err)
			}
			return err == nil
		}
		if err := save(ada, recipient.PortfolioSettings{Slug: " Ada-Obi "}); err != nil || !works("ada-obi") || works(random.Slug) {
			t.Errorf("after the change of the address: error = %v, the new address works = %t, the old address works = %t; want no error, true and false", err, works("ada-obi"), works(random.Slug))
		}
		if err := save(ada, recipient.PortfolioSettings{}); err != nil || !works("ada-obi") {
			t.Errorf("saving without an address: error = %v, the earlier address works = %t, want no error and true", err, works("ada-obi"))
		}
		if err := save(eve, recipient.PortfolioSettings{Slug: "ada-obi"}); !fault.Is(err, fault.Invalid) {
			t.Errorf("the address of another person: error = %v, want fault.Invalid", err)
		}
		if err := save(ada, recipient.PortfolioSettings{Slug: "ada-lovelace"}); err != nil {
			t.Fatal(err)
		}
		if err := save(eve, recipient.PortfolioSettings{Slug: "ada-obi"}); !fault.Is(err, fault.Invalid) || works("ada-obi") {
			t.Errorf("the former address of another person: error = %v, the address works = %t, want fault.Invalid and false", err, works("ada-obi"))
		}
		if err := save(ada, recipient.PortfolioSettings{Slug: "ada-obi"}); err != nil || !works("ada-obi") {
			t.Errorf("the person's own former address: error = %v, the address works = %t, want no error and true", err, works("ada-obi"))
		}
		if err := b.SavePortfolio(ctx, ada, recipient.PortfolioSettings{DisplayName: "Ada"}); err != nil || works("ada-obi") {
			t.Errorf("switched off: error = %v, the address works = %t, want no error and false", err, works("ada-obi"))
		}
		b.Tx(func(tx *db.Tx) error { return b.ForgetTx(ctx, tx, ada) })
		if err := save(eve, recipient.PortfolioSettings{Slug: "ada-obi"}); !fault.Is(err, fault.Invalid) {
			t.Errorf("the address of a deleted account: error = %v, want fault.Invalid", err)
		}
		b.Advance(400 * 24 * time.Hour)
		if err := save(eve, recipient.PortfolioSettings{Slug: "ada-obi"}); err != nil {
			t.Errorf("the address after 400 days: error = %v, want none", err)
		}
	})
}

// TestPortfolioOfDeletedAccount checks that the export contains the portfolio, that the portfolio is
// deleted with the account, and that the number of changes in a day is limited.
func TestPortfolioOfDeletedAccount(t *testing.T) {
	t.Parallel()
	dbtest.Each(t, func(t *testing.T, d *db.DB) {
		b := open(t, d)
		ctx := t.Context()
		ada := b.user("ada@example.org", true)
		c := b.upload(titled("BSc"))
		b.approve(c)
		export := func() any {
			t.Helper()
			e, err := b.Export(ctx, ada)
			if err != nil {
				t.Fatal(err)
			}
			var out bytes.Buffer
			_ = e.Write(ctx, &out) // the certificate has no stored file
			z, err := zip.NewReader(bytes.NewReader(out.Bytes()), int64(out.Len()))
			if err != nil {
				t.Fatal(err)
			}
			f, err := z.Open("export.json")
			if err != nil {
				t.Fatal(err)
			}
			defer f.Close()
			var content map[string]any
			if err := json.NewDecoder(f).Decode(&content); err != nil {
				t.Fatal(err)
			}
			return content["portfolio"]
		}
		if got := export(); got != nil {
			t.Errorf("the export without a portfolio has %v, want null", got)
		}
		if err := b.SavePortfolio(ctx, ada, recipient.PortfolioSettings{Slug: "ada-obi", DisplayName: "Ada", Visible: true, Listed: true}); err != nil {
			t.Fatal(err)
		}
		if err := b.AddEntry(ctx, ada, c.UUID); err != nil {
			t.Fatal(err)
		}
		got, _ := export().(map[string]any)
		if got["address"] != "https://vault.example/p/ada-obi" || got["display_name"] != "Ada" || got["visible"] != true || got["listed"] != true ||
			len(got["certificates"].([]any)) != 1 || got["certificates"].([]any)[0] != c.ReferenceID {
			t.Errorf("the export has %v, want the portfolio with the certificate", got)
		}
		b.Tx(func(tx *db.Tx) error { return b.ForgetTx(ctx, tx, ada) })
		var n int
		if err := d.QueryRowContext(ctx, `
			SELECT (SELECT count(*) FROM portfolios) + (SELECT count(*) FROM portfolio_entries) + (SELECT count(*) FROM portfolio_addresses WHERE user_id IS NOT NULL)`).Scan(&n); err != nil || n != 0 {
			t.Errorf("%d rows of the portfolio remain, error %v, want 0", n, err)
		}
		eve := b.user("eve@example.org", true)
		var err error
		for range 301 {
			err = b.SavePortfolio(ctx, eve, recipient.PortfolioSettings{DisplayName: "Eve"})
		}
		if !fault.Is(err, fault.TooMany) {
			t.Errorf("the 301st change of a day: error = %v, want fault.TooMany", err)
		}
	})
}
