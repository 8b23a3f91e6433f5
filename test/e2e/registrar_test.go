//go:build e2e

package e2e

import (
	"archive/zip"
	"bytes"
	"encoding/csv"
	"fmt"
	"net/http"
	"path"
	"strings"
	"testing"
	"time"

	"github.com/chromedp/chromedp"
	"github.com/xuri/excelize/v2"

	"github.com/certvault/certvault/test/vault"
)

// graduates is the number of rows in the list, without the header row.
const graduates = 300

// faulty maps the number of a row of the list to the change that puts a fault into the row.
var faulty = map[int]func(row []any){
	11: func(row []any) { row[2] = "invalid" },                                        // an invalid address
	12: func(row []any) { row[0] = "" },                                               // no title
	13: func(row []any) { row[3] = "lost.pdf" },                                       // a file that is missing in the ZIP
	14: func(row []any) { row[3] = "broken.pdf" },                                     // a damaged file
	15: func(row []any) { row[4] = "31.02.2026" },                                     // an invalid date
	16: func(row []any) { row[1] = "G\uFFFDnter Lost" },                               // a letter replaced by U+FFFD
	17: func(row []any) { row[1] = "" },                                               // no name
	18: func(row []any) { row[3] = "letter.docx" },                                    // a file of another type
	19: func(row []any) { row[2] = "graduate20@example.org"; row[1] = "Graduate 20" }, // a duplicate of row 20
	21: func(row []any) { row[5] = strings.Repeat("long ", 300) },                     // too much text
}

// registrarFiles writes the list and a ZIP file with its certificates, and returns their paths.
func registrarFiles(t *testing.T) (list, archive string) {
	t.Helper()
	f := excelize.NewFile()
	var b bytes.Buffer
	z := zip.NewWriter(&b)
	add := func(name string, content []byte) {
		part, err := z.Create(name)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := part.Write(content); err != nil {
			t.Fatal(err)
		}
	}
	set := func(n int, row []any) {
		if err := f.SetSheetRow("Sheet1", fmt.Sprintf("A%d", n), &row); err != nil {
			t.Fatal(err)
		}
	}
	set(1, []any{"Award", "Student", "E-mail address", "Document", "Date of issue", "Remarks"})
	for n := 2; n <= graduates+1; n++ {
		name := fmt.Sprintf("Graduate %d", n)
		row := []any{"BSc Physics", name, fmt.Sprintf("graduate%d@example.org", n), fmt.Sprintf("DIPLOMA-%d", n), time.Date(2026, 6, 30, 0, 0, 0, 0, time.UTC), "=1+1"}
		if change, ok := faulty[n]; ok {
			change(row)
		}
		set(n, row)
		add(fmt.Sprintf("class/diploma-%d.pdf", n), sample(name))
	}
	add("class/broken.pdf", []byte("%PDF-1.7 and no more"))
	add("class/letter.docx", []byte("PK"))
	add("__MACOSX/._x", []byte{0})
	if err := z.Close(); err != nil {
		t.Fatal(err)
	}
	var sheet bytes.Buffer
	if err := f.Write(&sheet); err != nil {
		t.Fatal(err)
	}
	return writeTemp(t, "graduates.xlsx", sheet.Bytes()), writeTemp(t, "diplomas.zip", b.Bytes())
}

// sendFiles selects files in a control and presses a button.
func (b *tab) sendFiles(control, button string, files ...string) {
	b.t.Helper()
	b.until("there is no control "+control, fmt.Sprintf(`document.readyState == "complete" && Boolean(document.querySelector(%q))`, control))
	b.do("selecting files", chromedp.SetUploadFiles(chromedp.CSS(control), files))
	b.press(button)
}

// TestRegistrar performs a bulk upload of a spreadsheet with 300 rows, ten of them with a fault, and a ZIP
// file, until the file of results is complete. It kills the vault twice during the upload.
func TestRegistrar(t *testing.T) {
	t.Parallel()
	eachInFull(t, func(t *testing.T, database string) {
		f := start(t, database)
		b := f.signInOwner(t)
		list, archive := registrarFiles(t)
		panel := "/panel/" + f.institution.Slug
		b.open(panel + "/bulk")
		b.press("Start a bulk upload")
		b.see("Upload the list", "Files (optional)")
		b.sendFiles("#list", "Upload list", list)
		b.see("Choose the column for each field", "Award: BSc Physics")
		b.do("choosing columns", chromedp.Evaluate[chromedp.Void](`(() => {
			for (const [name, at] of [["title", 0], ["full_name", 1], ["email", 2], ["file", 3], ["issue_date", 4], ["details", 5]]) document.getElementById(name).value = at;
		})()`))
		b.screenshot("columns")
		b.press("Save and review rows")
		b.see("6 errors", "Errors 6", "No files yet", "294 rows are waiting for their files")
		draft := evaluate[string](b, `location.pathname.replace("/rows", "")`)
		b.open(draft + "/files")
		b.sendFiles("#files", "Add files", archive)
		b.see("The files were uploaded.")

		// If the vault is killed during unpacking, it continues to unpack after the restart.
		f.Kill()
		f.restart(t)
		b.base = f.URL
		eventually(t, 4*time.Minute, "the ZIP is unpacked", func() bool {
			b.open(draft + "/rows?show=problems")
			return !strings.Contains(b.text(), "still being unpacked")
		})
		b.see("Errors 9", "31.02.2026 does not exist", "This e-mail address has no @", "The title is missing", "lost when the list was saved", "The file “lost.pdf” was not found.")
		b.screenshot("rows")

		for row, change := range map[int][2]string{
			11: {"email", "graduate11@example.org"}, 12: {"title", "BSc Physics"}, 15: {"issue_date", "30.06.2026"}, 16: {"full_name", "Günter Lost"}, 17: {"full_name", "Graduate 17"}, 21: {"details", "short"},
		} {
			b.open(fmt.Sprintf("%s/rows/%d", draft, row))
			b.fill(change[0], change[1])
			b.press("Save")
			b.see(fmt.Sprintf("Row %d was saved.", row))
		}
		b.open(draft + "/rows?show=problems")
		b.see("Errors 3")
		b.press("Skip all 3 rows with errors")
		b.see("The rows were skipped.", "1 duplicate row", "Certificates to issue", "Issue 296 certificates")
		b.screenshot("submit")
		b.press("Issue 296 certificates")
		b.see("of 297 rows processed")
		b.screenshot("progress")

		// Kill the vault again, while it creates certificates.
		f.Kill()
		f.restart(t)
		b.base = f.URL
		b.open(draft + "/progress")
		eventually(t, 4*time.Minute, "the page shows the result of all rows", func() bool {
			return strings.Contains(b.text(), "All 297 rows are processed: 296 approved, 1 rejected. 3 rows of the list were skipped.")
		})
		b.see("Approved 296", "Rejected 1")
		b.screenshot("done")

		session, err := f.SignIn(t.Context(), "owner@nwu.example", vault.OwnerPassword)
		if err != nil {
			t.Fatal(err)
		}
		c := f.as(t, "")
		c.Session = session
		a, err := c.Get(t.Context(), draft+"/results.csv")
		if err != nil {
			t.Fatal(err)
		}
		rows, err := csv.NewReader(strings.NewReader(strings.TrimPrefix(string(a.Body), "\uFEFF"))).ReadAll()
		if err != nil || len(rows) != graduates+1 {
			t.Fatalf("results.csv has %d rows, %v; want %d", len(rows), err, graduates+1)
		}
		counts := map[string]int{}
		for _, row := range rows[1:] {
			counts[row[7]]++
			if row[5] != "'=1+1" && !strings.HasPrefix(row[5], "long") {
				t.Errorf("row of results.csv = %q, want the remarks '=1+1 or a long text", row)
			}
		}
		if counts["approved"] != 296 || counts["rejected"] != 1 || counts["skipped"] != 3 {
			t.Errorf("statuses in results.csv = %v, want 296 approved, 1 rejected and 3 skipped", counts)
		}
		if n := count(t, f.database(t), `SELECT count(*) FROM certificates`); n != 296 {
			t.Errorf("got %d certificates, want 296", n)
		}

		// The certificates can be searched, filtered and revoked.
		b.open(panel + "/certificates")
		b.see("Approved 296", "Graduate")
		b.fill("q", "Günter")
		b.press("Search")
		b.see("Günter Lost", "All 1")
		b.screenshot("list")
		b.press("Günter Lost")
		b.see("Activity", "the signature is valid")
		b.screenshot("detail")
		public := evaluate[string](b, `[...document.querySelectorAll("main a")].find((a) => a.href.includes("/verify/")).href`)
		b.press("More")
		b.press("Revoke…")
		b.fill("reason", "Awarded in error")
		b.see("Public page after the revocation")
		b.screenshot("revoke")
		b.press("Revoke the certificate of")
		b.see("The certificate was revoked, and the public page shows it.")
		if response := get(t, f.as(t, ""), "/verify/"+path.Base(public), http.StatusOK); !strings.Contains(string(response.Body), "Awarded in error") {
			t.Error("the public page does not show the reason for the revocation")
		}
	})
}

// TestUploadInBrowser uploads two certificates with a chosen placement of the stamp, first with
// scripts and then without scripts.
func TestUploadInBrowser(t *testing.T) {
	t.Parallel()
	eachInFull(t, func(t *testing.T, database string) {
		f := start(t, database)
		b := f.signInOwner(t)
		for i, script := range []bool{true, false} {
			if !script {
				b.scriptless()
			}
			b.open("/panel/" + f.institution.Slug + "/upload")
			file := writeTemp(t, fmt.Sprintf("diploma-%d.pdf", i), sample(fmt.Sprintf("Ada %d", i)))
			if script {
				b.until("there is no control for the file", `document.readyState == "complete" && Boolean(document.querySelector("#file"))`)
				b.do("selecting the file", chromedp.SetUploadFiles(chromedp.CSS("#file"), []string{file}))
				b.until("the page with the stamp is not shown", `Boolean(document.querySelector(".stage canvas"))`)
			} else {
				b.sendFiles("#file", "Continue", file)
			}
			b.see("Position of the QR code", "Certificate details")
			b.screenshot(fmt.Sprintf("upload-%t", script))
			b.do("choosing a corner", chromedp.Click(chromedp.CSS("#place-corner")))
			b.do("choosing the placement", chromedp.Click(chromedp.CSS("#corner-top-left")))
			b.fill("certificate_title", "BSc")
			b.fill("full_name", fmt.Sprintf("Ada %d", i))
			b.fill("applicant_email", fmt.Sprintf("ada%d@example.org", i))
			b.press("Issue certificate")
			b.see("Upload another", "View certificate")
		}
		d := f.database(t)
		eventually(t, time.Minute, "both certificates are approved with the chosen placement", func() bool {
			return count(t, d, `SELECT count(*) FROM certificates WHERE status = 'approved' AND placement = 'top-left'`) == 2
		})
	})
}
