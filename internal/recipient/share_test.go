package recipient_test

import (
	"archive/zip"
	"bytes"
	"context"
	"encoding/json"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/certvault/certvault/internal/account"
	"github.com/certvault/certvault/internal/blob/blobtest"
	"github.com/certvault/certvault/internal/cert"
	"github.com/certvault/certvault/internal/db"
	"github.com/certvault/certvault/internal/db/dbtest"
	"github.com/certvault/certvault/internal/fault"
	"github.com/certvault/certvault/internal/identity"
	"github.com/certvault/certvault/internal/listing"
	"github.com/certvault/certvault/internal/recipient"
	"github.com/certvault/certvault/internal/search"
)

type ctxType = context.Context

func filter(text string) search.Filter {
	return search.Filter{Search: text, Range: listing.Range{Page: 1, PerPage: 10}}
}

func TestShares(t *testing.T) {
	t.Parallel()
	dbtest.Each(t, func(t *testing.T, d *db.DB) {
		b := open(t, d)
		ctx := t.Context()
		ada := recipient.Person(b.user("ada@example.org", true), "Ada", "ada@example.org")
		c, other := b.upload(), b.upload(titled("other"))
		if _, _, err := b.CreateShare(ctx, ada, c, recipient.NewShare{}); !fault.Is(err, fault.BadRequest) {
			t.Errorf("certificate in processing: error = %v, want fault.BadRequest", err)
		}
		b.approve(c, other)
		for name, n := range map[string]recipient.NewShare{
			"a past day": {Expires: "2026-06-30"}, "an invalid day": {Expires: "2026-02-30"}, "a day after ten years": {Expires: "2099-01-01"},
			"a label that is too long": {Label: strings.Repeat("x", 101)},
		} {
			if _, _, err := b.CreateShare(ctx, ada, c, n); !fault.Is(err, fault.Invalid) {
				t.Errorf("share with %s: error = %v, want fault.Invalid", name, err)
			}
		}
		secret, share, err := b.CreateShare(ctx, ada, c, recipient.NewShare{Label: " for \n the job ", Public: true})
		if err != nil || len(secret) < 26 || share.Label != "for the job" {
			t.Fatalf("CreateShare = %q, %+v, %v, want a secret and the label for the job", secret, share, err)
		}
		today, _, err := b.CreateShare(ctx, ada, c, recipient.NewShare{Expires: "2026-07-01"})
		if err != nil || today == secret {
			t.Fatal(err)
		}
		var stored int
		if err := d.QueryRowContext(ctx, `SELECT count(*) FROM shares WHERE hash = $1`, account.HashSecret(secret)).Scan(&stored); err != nil || stored != 1 {
			t.Errorf("%d shares are stored with the hash of the secret, want 1; error %v", stored, err)
		}
		got, shown, err := b.Shared(ctx, secret)
		if err != nil || !got.Public || shown.ID != c.ID {
			t.Fatalf("Shared = %+v, %v, want a public link to the certificate", got, err)
		}
		b.Advance(16 * time.Hour) // 2 July, 0:00
		if _, _, err := b.Shared(ctx, today); !fault.Is(err, fault.NotFound) {
			t.Errorf("after the last day: error = %v, want fault.NotFound", err)
		}
		list, err := b.Shares(ctx, c)
		if err != nil || len(list) != 2 || !list[0].Open || list[1].Open || list[0].UUID != share.UUID {
			t.Errorf("Shares = %+v, %v, want the open link before the expired link", list, err)
		}
		if err := b.RevokeShare(ctx, other, share.UUID); !fault.Is(err, fault.NotFound) {
			t.Errorf("revoking with another certificate: error = %v, want fault.NotFound", err)
		}
		for range 2 {
			if err := b.RevokeShare(ctx, c, share.UUID); err != nil {
				t.Fatal(err)
			}
		}
		if _, _, err := b.Shared(ctx, secret); !fault.Is(err, fault.NotFound) {
			t.Errorf("revoked link: error = %v, want fault.NotFound", err)
		}
		n := 0
		for err = nil; err == nil; n++ {
			_, _, err = b.CreateShare(ctx, ada, other, recipient.NewShare{})
		}
		if !fault.Is(err, fault.TooMany) || n-1 != recipient.AllowedShares {
			t.Errorf("%d shares were created, want %d; then error = %v, want fault.TooMany", n-1, recipient.AllowedShares, err)
		}
	})
}

func TestShareShowsRevokedCertificate(t *testing.T) {
	t.Parallel()
	dbtest.Each(t, func(t *testing.T, d *db.DB) {
		b := open(t, d)
		c := b.upload()
		b.approve(c)
		link, err := b.MailLink(t.Context(), b.link(0))
		if err != nil {
			t.Fatal(err)
		}
		secret, _, err := b.CreateShare(t.Context(), link.Holder(), c, recipient.NewShare{})
		if err != nil {
			t.Fatal(err)
		}
		b.move(c, cert.Revoked)
		if _, got, err := b.Shared(t.Context(), secret); err != nil || got.Status != cert.Revoked {
			t.Errorf("the share shows %+v, want the revoked certificate; error %v", got, err)
		}
		if _, _, err := b.CreateShare(t.Context(), link.Holder(), c, recipient.NewShare{}); !fault.Is(err, fault.BadRequest) {
			t.Errorf("new share of a revoked certificate: error = %v, want fault.BadRequest", err)
		}
	})
}

func TestWallet(t *testing.T) {
	t.Parallel()
	dbtest.Each(t, func(t *testing.T, d *db.DB) {
		b := open(t, d)
		ctx := t.Context()
		ada, eve := b.user("ada@example.org", true), b.user("eve@example.org", true)
		kth := b.institution("KTH")
		b.Exec(`UPDATE institutions SET colour = '#1a237e' WHERE id = $1`, kth.ID)
		bsc, msc, revoked := b.upload(titled("BSc 100% Physik")), b.upload(titled("MSc"), of(kth)), b.upload(titled("revoked"))
		b.approve(bsc, msc, revoked)
		b.move(revoked, cert.Revoked)
		b.upload(titled("in processing"))
		unapproved := b.upload(titled("revoked before it was approved"))
		b.move(unapproved, cert.Revoked)
		theirs := b.upload(to("eve@example.org"))
		b.approve(theirs)
		for name, tc := range map[string]struct {
			filter recipient.Filter
			want   []string
		}{
			"all": {recipient.Filter{}, []string{"revoked", "MSc", "BSc 100% Physik"}}, "text": {recipient.Filter{Text: "PHYS"}, []string{"BSc 100% Physik"}},
			"text with a percent sign": {recipient.Filter{Text: "100% p"}, []string{"BSc 100% Physik"}}, "percent sign is no wildcard": {recipient.Filter{Text: "B%k"}, nil},
			"institution": {recipient.Filter{Issuer: "kth"}, []string{"MSc"}}, "status": {recipient.Filter{Status: cert.Revoked}, []string{"revoked"}},
			"status and institution": {recipient.Filter{Status: cert.Revoked, Issuer: "kth"}, nil}, "page after the last": {recipient.Filter{Page: 2}, nil},
		} {
			if tc.filter.Page == 0 {
				tc.filter.Page = 1
			}
			w, err := b.Wallet(ctx, ada, tc.filter)
			if err != nil {
				t.Fatalf("%s: Wallet failed: %v", name, err)
			}
			var got []string
			for _, c := range w.Certificates {
				got = append(got, c.Title)
			}
			if strings.Join(got, ",") != strings.Join(tc.want, ",") || w.All != 3 || len(w.Issuers) != 2 || tc.filter.Page == 1 && w.Total != len(tc.want) {
				t.Errorf("%s: certificates %q of %d in total and %d issuers, want %q of 3 and 2 issuers", name, got, w.All, len(w.Issuers), tc.want)
			}
			for i := range w.Issuers {
				if brand := w.Issuers[i].Brand(); (w.Issuers[i].ID == kth.ID) != (brand != nil) || brand != nil && brand.Day.String() != "#1a237e" {
					t.Errorf("issuer %s has the colour %v, want #1a237e only for KTH", w.Issuers[i].Slug, brand)
				}
			}
		}
		if _, err := b.Certificate(ctx, ada, bsc.UUID); err != nil {
			t.Error(err)
		}
		for _, c := range []*cert.Certificate{theirs, unapproved} {
			if _, err := b.Certificate(ctx, ada, c.UUID); !fault.Is(err, fault.NotFound) {
				t.Errorf("certificate %s of %s: error = %v, want fault.NotFound", c.Title, c.Email, err)
			}
		}
		if _, err := b.Certificate(ctx, eve, bsc.UUID); !fault.Is(err, fault.NotFound) {
			t.Error("a certificate of another person: the error is not fault.NotFound")
		}
	})
}

func TestCorrections(t *testing.T) {
	t.Parallel()
	dbtest.Each(t, func(t *testing.T, d *db.DB) {
		b := open(t, d)
		ctx := t.Context()
		owner, second := b.user("owner@example.org", true), b.user("second@example.org", true)
		for _, id := range []int64{owner, second} {
			b.Exec(`INSERT INTO members (institution_id, user_id, role, created_at) VALUES ($1, $2, 'owner', 1)`, b.inst.ID, id)
		}
		b.Exec(`UPDATE institutions SET contact = 'Second@example.org', mail_language = 'de' WHERE id = $1`, b.inst.ID)
		c := b.upload()
		b.approve(c)
		link, err := b.MailLink(ctx, b.link(0))
		if err != nil {
			t.Fatal(err)
		}
		if got := b.mails()[0]; !strings.Contains(got.Subject, "Ihr Zertifikat") || !strings.Contains(got.HTML, `lang="de"`) {
			t.Errorf("the subject of the mail is %q, want a German subject", got.Subject)
		}
		for _, text := range []string{"", "  ", strings.Repeat("x", 1001), "a\x00b"} {
			if err := b.RequestCorrection(ctx, link.Holder(), c, text); !fault.Is(err, fault.Invalid) {
				t.Errorf("text %q: error = %v, want fault.Invalid", text, err)
			}
		}
		ada := recipient.Person(b.user("ada@example.org", true), "Ada", "ada@example.org")
		for range recipient.AllowedCorrections {
			if err := b.RequestCorrection(ctx, ada, c, "My name is\nZoë."); err != nil {
				t.Fatal(err)
			}
		}
		if err := b.RequestCorrection(ctx, ada, c, "Once more."); !fault.Is(err, fault.TooMany) {
			t.Errorf("beyond the daily limit: error = %v, want fault.TooMany", err)
		}
		b.wantSent(append([]string{"ada@example.org"}, strings.Split(strings.Repeat("owner@example.org,", 5)+strings.Repeat("second@example.org,", 4)+"second@example.org", ",")...)...)
		if last := b.mails()[1]; !strings.Contains(last.Text, "My name is Zoë.") || !strings.Contains(last.Text, c.ReferenceID) {
			t.Errorf("the text of the mail is %q, want the request on one line and the reference id", last.Text)
		}
		if want := "https://vault.example/panel/" + b.inst.Slug + "/certificates/" + c.UUID + "#corrections"; !strings.Contains(b.mails()[1].Text, want) {
			t.Errorf("the mail does not link to %s: %q", want, b.mails()[1].Text)
		}
		list, n, err := b.OpenCorrections(ctx, b.inst.ID, 2)
		if err != nil || n != 5 || len(list) != 2 || list[0].Text != "My name is\nZoë." || list[0].Certificate != c.UUID || list[0].FullName != c.FullName {
			t.Fatalf("OpenCorrections = %+v, %d, %v, want 2 of 5 requests for the certificate", list, n, err)
		}
		kth := b.institution("KTH")
		if list, n, err := b.OpenCorrections(ctx, kth.ID, 2); err != nil || n != 0 || len(list) != 0 {
			t.Errorf("another institution has %d requests, want none: %+v; error %v", n, list, err)
		}
		foreign, other := *c, b.upload(to("eve@example.org"))
		foreign.InstitutionID = kth.ID
		for name, of := range map[string]*cert.Certificate{"another institution": &foreign, "another certificate": other} {
			if err := b.SettleCorrection(ctx, of, list[0].UUID, nil); !fault.Is(err, fault.NotFound) {
				t.Errorf("SettleCorrection with %s: error = %v, want fault.NotFound", name, err)
			}
			if list, err := b.CorrectionsOf(ctx, of); err != nil || len(list) != 0 {
				t.Errorf("%s has the requests %+v, want none; error %v", name, list, err)
			}
		}
		calls := 0
		for range 2 {
			if err := b.SettleCorrection(ctx, c, list[0].UUID, func(context.Context, *db.Tx, *cert.Certificate) error { calls++; return nil }); err != nil {
				t.Fatal(err)
			}
		}
		if _, n, err := b.OpenCorrections(ctx, b.inst.ID, 2); err != nil || n != 4 || calls != 1 {
			t.Errorf("%d requests are open, and the callback was called %d times; want 4 and 1; error %v", n, calls, err)
		}
		all, err := b.CorrectionsOf(ctx, c)
		if err != nil || len(all) != 5 || all[4].UUID != list[0].UUID || all[4].SettledAt == nil || all[0].SettledAt != nil {
			t.Errorf("CorrectionsOf = %+v, %v, want 5 requests, of which only the oldest is settled", all, err)
		}
	})
}

func TestExport(t *testing.T) {
	t.Parallel()
	dbtest.Each(t, func(t *testing.T, d *db.DB) {
		b := open(t, d)
		ctx := t.Context()
		id := b.user("ada@example.org", true)
		c, theirs := b.upload(), b.upload(to("eve@example.org"))
		b.approve(c, theirs)
		b.store(c, "the original")
		if _, _, err := b.CreateShare(ctx, recipient.Person(id, "Ada", "ada@example.org"), c, recipient.NewShare{Label: "for the job"}); err != nil {
			t.Fatal(err)
		}
		for _, address := range []string{"ada@example.org", "eve@example.org"} {
			if _, err := d.Writer().ExecContext(ctx, `INSERT INTO unsubscribes (institution_id, email_folded, created_at) VALUES ($1, $2, 1700000000000000)`,
				c.InstitutionID, address); err != nil {
				t.Fatal(err)
			}
		}
		e, err := b.Export(ctx, id)
		if err != nil {
			t.Fatal(err)
		}
		e.SignIns([]*identity.Session{{ID: 1, Method: identity.ByPassword, Address: "192.0.2.1", UserAgent: "Lynx"}}, []identity.Passkey{{Name: "Ada's phone"}})
		var out bytes.Buffer
		if err := e.Write(ctx, &out); err != nil {
			t.Fatal(err)
		}
		z, err := zip.NewReader(bytes.NewReader(out.Bytes()), int64(out.Len()))
		if err != nil {
			t.Fatal(err)
		}
		files := map[string]string{}
		for _, f := range z.File {
			r, err := f.Open()
			if err != nil {
				t.Fatal(err)
			}
			files[f.Name] = readAll(t, r)
		}
		if len(files) != 3 || files[c.ReferenceID+"/original.pdf"] != "the original" || files[c.ReferenceID+"/"+c.ReferenceID+".pdf"] != "the original and a tail" {
			t.Errorf("the files are %v, want export.json, the original and the verified PDF", files)
		}
		var about recipient.Exported
		if err := json.Unmarshal([]byte(files["export.json"]), &about); err != nil {
			t.Fatal(err)
		}
		if about.Account.Email != "ada@example.org" || len(about.Certificates) != 1 || about.Certificates[0].UUID != c.UUID ||
			len(about.Certificates[0].ShareLinks) != 1 || len(about.Certificates[0].Mails) != 1 || strings.Contains(files["export.json"], "eve@") {
			t.Errorf("export.json is %s, want only the certificate of Ada, with one link and one mail", files["export.json"])
		}
		if len(about.Sessions) != 1 || about.Sessions[0].Address != "192.0.2.1" || len(about.Passkeys) != 1 || about.Passkeys[0].Name != "Ada's phone" {
			t.Errorf("export.json has the sessions %+v and the passkeys %+v, want one of each", about.Sessions, about.Passkeys)
		}
		if n := about.Unsubscribed; len(n) != 1 || n[0].Institution != about.Certificates[0].Institution || n[0].At.Year() != 2023 {
			t.Errorf("export.json has the unsubscribed institutions %+v, want only the institution of the certificate", n)
		}
		eve, err := b.Export(ctx, b.user("eve@example.org", false))
		if err != nil {
			t.Fatal(err)
		}
		if n := eve.About().Unsubscribed; len(n) != 0 {
			t.Errorf("the export for an unverified address has the unsubscribed institutions %+v, want none", n)
		}
		for range recipient.AllowedExports - 1 {
			if _, err := b.Export(ctx, id); err != nil {
				t.Fatal(err)
			}
		}
		if _, err := b.Export(ctx, id); !fault.Is(err, fault.TooMany) {
			t.Errorf("beyond the daily limit: error = %v, want fault.TooMany", err)
		}
	})
}

// TestExportContinuesWithoutDamagedFiles checks that an export continues without files that are
// damaged or missing, and lists these files in the language of the person.
func TestExportContinuesWithoutDamagedFiles(t *testing.T) {
	t.Parallel()
	dbtest.Each(t, func(t *testing.T, d *db.DB) {
		b := open(t, d)
		ctx := t.Context()
		id := b.user("ada@example.org", true)
		b.Exec(`UPDATE users SET language = 'de' WHERE id = $1`, id)
		list := []*cert.Certificate{b.upload(titled("missing")), b.upload(titled("changed")), b.upload(titled("intact"))}
		b.approve(list...)
		for _, c := range list {
			b.store(c, "a diploma")
		}
		missing, changed, intact := list[0], list[1], list[2]
		if err := b.Blobs.Delete(ctx, missing.File.Key); err != nil {
			t.Fatal(err)
		}
		blobtest.Replace(t, b.Blobs, changed.Verified.TailKey, " or a tail!")
		e, err := b.Export(ctx, id)
		if err != nil {
			t.Fatal(err)
		}
		var out bytes.Buffer
		if err := e.Write(ctx, &out); err != nil {
			t.Fatal(err)
		}
		z, err := zip.NewReader(bytes.NewReader(out.Bytes()), int64(out.Len()))
		if err != nil {
			t.Fatal(err)
		}
		files := map[string]string{}
		for _, f := range z.File {
			r, err := f.Open()
			if err != nil {
				t.Fatal(err)
			}
			files[f.Name] = readAll(t, r)
		}
		original := func(c *cert.Certificate) string { return c.ReferenceID + "/original.pdf" }
		verified := func(c *cert.Certificate) string { return c.ReferenceID + "/" + c.ReferenceID + ".pdf" }
		if len(files) != 5 || files[original(changed)] != "a diploma" || files[original(intact)] != "a diploma" || files[verified(intact)] != "a diploma and a tail" {
			t.Errorf("the files are %v, want only the files that are neither damaged nor missing", files)
		}
		if text := files["missing-files.txt"]; !strings.Contains(text, "beschädigt") || !strings.HasSuffix(text, "\n\n"+strings.Join([]string{original(missing), verified(missing), verified(changed)}, "\n")+"\n") {
			t.Errorf("the list of missing files is %s, want 3 names and German text", text)
		}
		var about recipient.Exported
		if err := json.Unmarshal([]byte(files["export.json"]), &about); err != nil {
			t.Fatal(err)
		}
		for i, want := range []int{2, 1, 0} {
			if got := about.Certificates[i]; len(got.MissingFiles) != want || (got.VerifiedFile == "") != (want > 0) || (got.OriginalFile == "") != (want == 2) {
				t.Errorf("certificate %d has the files %q and %q and lacks %v; want 2, 1 and 0 missing files of certificates 0, 1 and 2", i, got.OriginalFile, got.VerifiedFile, got.MissingFiles)
			}
		}
	})
}

// TestRevokedMailLinkShowsOtherCertificates checks that a mailed link that was revoked for one
// certificate still shows the other certificates.
func TestRevokedMailLinkShowsOtherCertificates(t *testing.T) {
	t.Parallel()
	dbtest.Each(t, func(t *testing.T, d *db.DB) {
		b := open(t, d)
		ctx := t.Context()
		list := b.batch(true, "ada@example.org", "ada@example.org")
		b.approve(list...)
		b.sweep()
		for i, c := range list {
			if mailed, err := b.HasMailLink(ctx, c); err != nil || !mailed {
				t.Fatal("no mailed link opens the certificate, want a link:", err)
			}
			for range 2 {
				if err := b.RevokeMailLinks(ctx, c); err != nil {
					t.Fatal(err)
				}
			}
			if mailed, err := b.HasMailLink(ctx, c); err != nil || mailed {
				t.Fatal("a mailed link opens the certificate after the revocation, want none:", err)
			}
			link, err := b.MailLink(ctx, b.link(0))
			if left := list[i+1:]; len(left) == 0 {
				if !fault.Is(err, fault.NotFound) {
					t.Errorf("the link shows %+v, want fault.NotFound; error %v", link, err)
				}
			} else if err != nil || len(link.Certificates) != len(left) || link.Certificates[0].ID != left[0].ID {
				t.Errorf("the link shows %+v, want only the certificates that were not revoked; error %v", link, err)
			}
		}
	})
}

// TestMailLinkOfManyCertificates checks that a link shows a limited number of certificates and
// reports whether there are more.
func TestMailLinkOfManyCertificates(t *testing.T) {
	t.Parallel()
	dbtest.Each(t, func(t *testing.T, d *db.DB) {
		b := open(t, d)
		first := b.upload()
		b.approve(first)
		b.Advance(time.Hour)
		b.sweep()
		const shows = 2
		b.SetMaxShown(shows)
		for i := range shows {
			b.approve(b.upload(titled(strconv.Itoa(i))))
		}
		b.Exec(`UPDATE notices SET link_id = (SELECT min(link_id) FROM notices)`)
		for _, more := range []bool{true, false} {
			l, err := b.MailLink(t.Context(), b.link(0))
			if err != nil || len(l.Certificates) != shows || l.More != more {
				t.Fatalf("the link shows %d certificates and More = %v, want %d and %v; error %v", len(l.Certificates), l.More, shows, more, err)
			}
			if err := b.RevokeMailLinks(t.Context(), first); err != nil {
				t.Fatal(err)
			}
		}
	})
}
