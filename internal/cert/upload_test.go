package cert

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/certvault/certvault/internal/db"
	"github.com/certvault/certvault/internal/db/dbtest"
	"github.com/certvault/certvault/internal/fault"
)

func repeat(s string, n int) string { return strings.Repeat(s, n) }

// fieldsOf returns, for each field of an error, the code, or the first message if there is no code.
func fieldsOf(err error) map[string]string {
	fields := map[string]string{}
	for _, p := range ProblemsOf(err) {
		fields[string(p.Field)] = string(p.Code)
	}
	if e, ok := errors.AsType[*fault.Error](err); ok && e.Kind == fault.Invalid {
		for _, f := range e.Fields {
			fields[f.Name] = f.Messages[0]
		}
	}
	return fields
}

// duplicateOf returns the problem of a duplicate of a certificate.
func duplicateOf(c *Certificate) Problems {
	return Problems{{Field: FieldEmail, Code: CodeDuplicate, Detail: c.UUID}}
}

func TestUploadValidation(t *testing.T) {
	t.Parallel()
	d := dbtest.Open(t, t.TempDir(), "")
	v := newVault(t, d)
	file := v.receive(v.inst, samplePDF("a diploma", 0))
	// The vault accepts addresses of at most 255 characters.
	longest := repeat("a", 64) + "@" + repeat("b", 63) + "." + repeat("c", 63) + "." + repeat("d", 59) + ".ed"
	if len(longest) != 255 {
		t.Fatalf("the longest address has %d characters, want 255", len(longest))
	}
	for n, tc := range []struct {
		name   string
		change func(u *Upload)
		fields string
	}{
		{"valid", func(*Upload) {}, ""},
		{"no title", func(u *Upload) { u.Title = "" }, "title"},
		{"title of white space", func(u *Upload) { u.Title = "  \u00a0 " }, "title"},
		{"title of 255 code points of four bytes", func(u *Upload) { u.Title = repeat("🎓", 255) }, ""},
		{"title of 255 and spaces", func(u *Upload) { u.Title = " " + repeat("x", 255) + " " }, ""},
		{"title of 256", func(u *Upload) { u.Title = repeat("x", 256) }, "title"},
		{"title not UTF-8", func(u *Upload) { u.Title = "a\xff" }, "title"},
		{"title with NUL", func(u *Upload) { u.Title = "a\x00b" }, "title"},
		{"no name", func(u *Upload) { u.FullName = "" }, "name"},
		{"name of 255", func(u *Upload) { u.FullName = repeat("名", 255) }, ""},
		{"name of 256", func(u *Upload) { u.FullName = repeat("名", 256) }, "name"},
		{"no e-mail", func(u *Upload) { u.Email = "" }, "email"},
		{"longest e-mail", func(u *Upload) { u.Email = longest }, ""},
		{"longer e-mail", func(u *Upload) { u.Email = "a" + longest }, "email"},
		{"e-mail without domain", func(u *Upload) { u.Email = "ada" }, "email"},
		{"e-mail with a display name", func(u *Upload) { u.Email = "Ada <ada@example.org>" }, "email"},
		{"two e-mails", func(u *Upload) { u.Email = "ada@example.org, bo@example.org" }, "email"},
		{"e-mail with a line end", func(u *Upload) { u.Email = "ada@example.org\nBcc: x@y.org" }, "email"},
		{"leap day", func(u *Upload) { u.IssueDate = "2024-02-29" }, ""},
		{"no date", func(u *Upload) { u.IssueDate = " " }, ""},
		{"date that does not exist", func(u *Upload) { u.IssueDate = "2023-02-29" }, "issue_date"},
		{"short date", func(u *Upload) { u.IssueDate = "2024-2-9" }, "issue_date"},
		{"date with a time", func(u *Upload) { u.IssueDate = "2024-02-09T00:00:00Z" }, "issue_date"},
		{"American date", func(u *Upload) { u.IssueDate = "02/09/2024" }, "issue_date"},
		{"details of 1,000", func(u *Upload) { u.Details = repeat("é", 1000) }, ""},
		{"details of 1,001", func(u *Upload) { u.Details = repeat("é", 1001) }, "details"},
		{"no file", func(u *Upload) { u.File = nil }, "file"},
		{"a refused file", func(u *Upload) {
			u.File, u.FileProblem = nil, &Problem{Field: FieldFile, Code: CodeRefusedFile, Detail: "The file is empty."}
		}, "file"},
		{"everything missing", func(u *Upload) { *u = Upload{Institution: u.Institution} },
			"email file name title"},
	} {
		u := Upload{
			Institution: v.inst, Creator: Actor{Type: "token", ID: 7, Name: "Registry"}, Context: SingleUpload, File: file,
			Title: fmt.Sprintf("BSc %d", n), FullName: "Ada Obi", Email: "ada@example.org", IssueDate: "2026-06-30",
		}
		tc.change(&u)
		c, err := v.Upload(t.Context(), u)
		got := strings.Join(slices.Sorted(maps.Keys(fieldsOf(err))), " ")
		if got != tc.fields || (err == nil) != (tc.fields == "") {
			t.Errorf("%s: fields = %q, want %q; err = %v", tc.name, got, tc.fields, err)
		}
		if err == nil && v.get(c.UUID).Title != strings.TrimSpace(u.Title) {
			t.Errorf("%s: stored title = %q, want the submitted title without surrounding white space", tc.name, v.get(c.UUID).Title)
		}
	}
}

func TestUploadStoresSubmittedText(t *testing.T) {
	t.Parallel()
	dbtest.Each(t, func(t *testing.T, d *db.DB) {
		v := newVault(t, d)
		c := v.upload(func(u *Upload) {
			u.Title, u.FullName, u.Email = "\t BSc  Physics \n", " Ada  Ọ̀bí\u3000", " Ada.Obi@EXAMPLE.org "
			u.IssueDate, u.Details = "", " with  honours "
		})
		got := v.get(c.UUID)
		if got.Title != "BSc  Physics" || got.FullName != "Ada  Ọ̀bí" || got.Email != "Ada.Obi@EXAMPLE.org" || got.Details != "with  honours" {
			t.Errorf("stored certificate = %+v, want the submitted texts without surrounding white space", got)
		}
		if want := v.clock.Now().UTC().Format("2006-01-02"); got.IssueDate != want {
			t.Errorf("issue date of an upload without a date = %s, want the current day, %s", got.IssueDate, want)
		}
		if got.Creator != (Actor{Type: "token", ID: 7, Name: "Registry"}) || got.Source != Vault || got.File.Name != "diploma.pdf" {
			t.Errorf("stored certificate = %+v, want the creator, the source and the file name of the upload", got)
		}
		if !got.CreatedAt.Equal(c.CreatedAt) || got.ReferenceID != c.ReferenceID || got.File.SHA256 != c.File.SHA256 {
			t.Errorf("Upload returned %+v, but stored another time, reference id or digest: %+v", c, got)
		}
	})
}

// One of several concurrent uploads of the same certificate succeeds. The errors of the other
// uploads have the UUID of the stored certificate.
func TestConcurrentDuplicates(t *testing.T) {
	t.Parallel()
	const uploaders = 12
	dbtest.Each(t, func(t *testing.T, d *db.DB) {
		v := newVault(t, d)
		uploads := make([]Upload, uploaders)
		for i := range uploads {
			uploads[i] = v.input(v.inst)
		}
		var wg sync.WaitGroup
		made := make([]*Certificate, uploaders)
		errs := make([]error, uploaders)
		start := make(chan struct{})
		for i := range uploaders {
			wg.Go(func() {
				<-start
				made[i], errs[i] = v.Upload(t.Context(), uploads[i])
			})
		}
		close(start)
		wg.Wait()
		winner := slices.IndexFunc(errs, func(err error) bool { return err == nil })
		if winner < 0 {
			t.Fatal(errs[0])
		}
		for i, err := range errs {
			if i == winner {
				continue
			}
			e, ok := errors.AsType[*fault.Error](err)
			if !ok || e.Kind != fault.Invalid {
				t.Errorf("upload %d: err = %v, want Invalid", i, err)
				continue
			}
			if got, want := ProblemsOf(err), duplicateOf(made[winner]); !slices.Equal(got, want) {
				t.Errorf("upload %d: problems = %v, want %v", i, got, want)
			}
		}
		if rows, events, jobs := v.count(), len(v.events()), len(v.jobs()); rows != 1 || events != 1 || jobs != 1 {
			t.Errorf("got %d rows, %d events and %d jobs, want one of each", rows, events, jobs)
		}
	})
}

func (v *vault) count() (n int) {
	v.tb.Helper()
	if err := v.d.QueryRowContext(v.tb.Context(), `SELECT count(*) FROM certificates`).Scan(&n); err != nil {
		v.tb.Fatal(err)
	}
	return n
}

func TestDuplicateRule(t *testing.T) {
	t.Parallel()
	dbtest.Each(t, func(t *testing.T, d *db.DB) {
		v := newVault(t, d)
		first := v.upload(func(u *Upload) { u.Email = "Ada@Bücher.example" })
		other := v.institution("OTH")
		for _, tc := range []struct {
			name      string
			change    func(u *Upload)
			duplicate bool
		}{
			{"the same with another name", func(u *Upload) { u.FullName = "Someone Else" }, true},
			{"white space around the title", func(u *Upload) { u.Title = "  BSc Physics\n" }, true},
			{"the e-mail in different case", func(u *Upload) { u.Email = "ADA@BÜCHER.EXAMPLE" }, true},
			{"the e-mail's domain in ASCII", func(u *Upload) { u.Email = "ada@xn--bcher-kva.example" }, true},
			{"the title in different case", func(u *Upload) { u.Title = "BSC Physics" }, false},
			{"another date", func(u *Upload) { u.IssueDate = "2026-07-01" }, false},
			{"another e-mail", func(u *Upload) { u.Email = "bo@bücher.example" }, false},
			{"another institution", func(u *Upload) { u.Institution = other }, false},
		} {
			u := v.input(v.inst)
			u.Email = "ada@bücher.example"
			tc.change(&u)
			_, err := v.Upload(t.Context(), u)
			if got := slices.Equal(ProblemsOf(err), duplicateOf(first)); got != tc.duplicate || !tc.duplicate && err != nil {
				t.Errorf("%s: err = %v, want a duplicate: %t", tc.name, err, tc.duplicate)
			}
		}
		for _, status := range Statuses {
			v.force(first, status)
			u := v.input(v.inst)
			u.Email = "ada@bücher.example"
			if _, err := v.Upload(t.Context(), u); !slices.Equal(ProblemsOf(err), duplicateOf(first)) {
				t.Errorf("duplicate of a certificate in status %s: err = %v, want the problem of the duplicate", status, err)
			}
		}
	})
}

// No operation reads or changes another institution's certificate, or reveals that the certificate
// exists.
func TestOtherInstitutionHasNoAccess(t *testing.T) {
	t.Parallel()
	dbtest.Each(t, func(t *testing.T, d *db.DB) {
		v := newVault(t, d)
		ctx := t.Context()
		other := v.institution("OTH")
		c := v.upload(nil)
		if err := v.apply(triggerError, c.UUID); err != nil {
			t.Fatal(err)
		}
		before := v.snapshot(c.UUID)
		for name, call := range map[string]func() (*Certificate, error){
			"ByUUID": func() (*Certificate, error) { return v.ByUUID(ctx, other.ID, c.UUID) },
			"Retry":  func() (*Certificate, error) { return v.Retry(ctx, other.ID, c.UUID, nil) },
			"Revoke": func() (*Certificate, error) { return v.Revoke(ctx, other.ID, c.UUID, Revocation{Reason: "x"}) },
			// The error of an invalid request must not reveal that the record exists.
			"Revoke without a reason": func() (*Certificate, error) { return v.Revoke(ctx, other.ID, c.UUID, Revocation{}) },
		} {
			got, err := call()
			e, ok := errors.AsType[*fault.Error](err)
			if got != nil || !ok || e.Kind != fault.NotFound {
				t.Errorf("%s: certificate = %+v, err = %v, want NotFound", name, got, err)
			}
			if _, unknown := v.ByUUID(ctx, other.ID, "unknown"); ok && e.Message != unknown.Error() {
				t.Errorf("%s: message = %q, want %q as for an unknown certificate", name, e.Message, unknown.Error())
			}
		}
		if after := v.snapshot(c.UUID); after.Row.Status != before.Row.Status || len(after.Events) != len(before.Events) {
			t.Error("a call of another institution changed the status or the events of the certificate")
		}
	})
}

func TestReferenceIDs(t *testing.T) {
	t.Parallel()
	seen := map[string]bool{}
	letters := map[rune]bool{}
	for range 2000 {
		id, err := newReference("NWU")
		if err != nil {
			t.Fatal(err)
		}
		code, ok := strings.CutPrefix(id, "NWU-")
		if !ok || len(code) != 16 || strings.Trim(code, "0123456789ABCDEFGHJKMNPQRSTVWXYZ") != "" || seen[id] {
			t.Fatalf("reference id = %q, want NWU- and 16 characters of base 32, different from the earlier ids", id)
		}
		seen[id] = true
		for _, c := range code {
			letters[c] = true
		}
		if FoldReference(id) != "NWU"+code {
			t.Fatalf("FoldReference(%q) = %q, want the id without the hyphen", id, FoldReference(id))
		}
	}
	// The probability that one of 32 characters is missing in 32,000 random characters is 10^-440.
	if len(letters) != 32 {
		t.Errorf("the reference ids have %d different characters, want 32", len(letters))
	}
}

func TestFoldReference(t *testing.T) {
	t.Parallel()
	const want = "NWU7K3M9QX2P4RTVW01"
	for _, typed := range []string{
		"NWU-7K3M9QX2P4RTVW01", "nwu-7k3m9qx2p4rtvw01", "NWU7K3M9QX2P4RTVW01", " nwu 7k3m-9qx2-p4rt-vw01\n",
		"NWU-7K3M9QX2P4RTVWOI", "nwu-7k3m9qx2p4rtvwol", "NWU\u20137K3M9QX2P4RTVW01", "NWU\u22127K3M9QX2P4RTVW01", "NWU\u00a07K3M9QX2P4RTVW01",
		"\u200eNWU-7K3M9QX2P4RTVW01\u200f", "NWU\u00ad-7K3M9QX2\u200bP4RTVW01", "\ufeffNWU-7K3M9QX2P4RTVW01", "\u2068NWU-7K3M9QX2P4RTVW01\u2069",
	} {
		if got := FoldReference(typed); got != want {
			t.Errorf("FoldReference(%q) = %q, want %q", typed, got, want)
		}
	}
	// A prefix is folded like the rest of the id.
	if a, b := FoldReference("OIL-7K3M9QX2P4RTVW01"), FoldReference("0i1 7K3M9QX2P4RTVW01"); a != b || a == "" {
		t.Errorf("FoldReference returned %q and %q for two forms of one id, want the same text", a, b)
	}
	for _, typed := range []string{
		"", " ", "-", "NWU", "7K3M9QX2P4RTVW01", "NWU-7K3M9QX2P4RTVW0/", "NWU-7K3M9QX2P4RTVW0\x00", "NWU_7K3M9QX2P4RTVW01", "ŃWU-7K3M9QX2P4RTVW01",
		"<script>alert(1)</script>", "../../../../etc/passwd", "\xff\xfe", "%", repeat("A", 129), repeat(" ", 200) + "NWU-7K3M9QX2P4RTVW01", "١٢٣٤٥٦٧٨٩٠١٢٣٤٥٦٧٨",
	} {
		if got := FoldReference(typed); got != "" {
			t.Errorf("FoldReference(%q) = %q, want an empty text", typed, got)
		}
	}
}

func TestByReferenceAcceptsTypedForms(t *testing.T) {
	t.Parallel()
	dbtest.Each(t, func(t *testing.T, d *db.DB) {
		v := newVault(t, d)
		c := v.upload(func(u *Upload) { u.Institution = v.institution("OIL") })
		typed := strings.NewReplacer("-", " ", "0", "o", "1", "l").Replace(strings.ToLower(c.ReferenceID))
		for _, id := range []string{c.ReferenceID, typed} {
			got, err := v.ByReference(t.Context(), id)
			if err != nil || got.UUID != c.UUID {
				t.Errorf("ByReference(%q): err = %v, want the certificate", id, err)
			}
		}
		for _, id := range []string{"", c.ReferenceID[:len(c.ReferenceID)-1], c.ReferenceID + "0", "%", "x\x00"} {
			if _, err := v.ByReference(t.Context(), id); !fault.Is(err, fault.NotFound) {
				t.Errorf("ByReference(%q): err = %v, want NotFound", id, err)
			}
		}
	})
}

func TestFileName(t *testing.T) {
	t.Parallel()
	for given, want := range map[string]string{
		"diploma.pdf": "diploma.pdf", `C:\Users\ada\diploma.pdf`: "diploma.pdf", "../../etc/diploma.pdf": "diploma.pdf", "a\x00b\nc.pdf": "abc.pdf",
		"\xffx.pdf": "x.pdf", "证书 📜.pdf": "证书 📜.pdf", repeat("x", 300) + ".pdf": repeat("x", 251) + ".pdf",
	} {
		if got := fileName(given); got != want {
			t.Errorf("fileName(%q) = %q, want %q", given, got, want)
		}
	}
}
