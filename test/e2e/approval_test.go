//go:build e2e

package e2e

import (
	"testing"

	"github.com/certvault/certvault/client"
	"github.com/certvault/certvault/test/vault"
)

// TestSignatoriesInBrowser chooses two signatories for a template in a browser, and issues a batch from
// the template. Each signatory approves the batch in a browser. Then all certificates are approved, and
// their webhooks arrive.
func TestSignatoriesInBrowser(t *testing.T) {
	t.Parallel()
	eachInFull(t, func(t *testing.T, database string) {
		f := start(t, database, "--webhook-allow", "127.0.0.1")
		ctx, panel := t.Context(), "/panel/"+f.institution.Slug
		if _, err := f.CreateInstitution(ctx, "Exa University", "EXA"); err != nil {
			t.Fatal(err)
		}
		f.certvault(t, "", "member", "add", "--institution", f.institution.Slug, "--email", "owner@exa.example", "--name", "Second", "--role", "admin")
		f.client = f.as(t, f.token(t, "", "certificate-template:issue", "batch:view", "certificate:view"))
		r := receive(t, nil)
		f.endpoint(t, r)
		id := f.template(t, "heritage")

		b := f.signInOwner(t)
		b.scriptless()
		b.open(panel + "/templates/" + id)
		b.press("Choose signatories")
		b.see("Signatory 1")
		for i := 1; i <= 2; i++ {
			b.until("the members cannot be chosen", choose("member-"+string(rune('0'+i)), i))
		}
		b.fill("designation", "Dean")
		b.screenshot("signatories")
		b.press("Save signatories")
		b.see("The signatories were saved.", "Dean")
		b.press("Publish")
		b.see("The template was published", "in any order")
		b.screenshot("template-signatories")

		accepted, err := f.api(t).Issue(ctx, id, "Class of 2026", []client.IssueEntry{
			{FullName: "Amelia Hart", ApplicantEmail: "amelia@example.org"}, {FullName: "Jo Li", ApplicantEmail: "jo@example.org"},
			{FullName: "Maximiliana Konstantinopoulou", ApplicantEmail: "max@example.org"},
		})
		if err != nil {
			t.Fatal(err)
		}
		d := f.database(t)
		eventually(t, batchTime, "all certificates wait", func() bool {
			return count(t, d, `SELECT count(*) FROM certificate_signatures WHERE asked_at IS NOT NULL`) == 6
		})
		b.open(panel + "/approvals")
		b.see("Class of 2026")
		b.screenshot("approvals")
		b.press("Class of 2026")
		b.see("longest name", "Maximiliana Konstantinopoulou", "Approve all (3)")
		b.until("the previews are not shown", `[...document.querySelectorAll("main img")].every((e) => e.loading === "lazy" || e.naturalWidth > 0)`)
		b.screenshot("approval")
		b.press("Approve all (3)")
		b.see("Approved certificates: 3", "Nothing is waiting for your approval")

		second := browse(t, f.Vault)
		signIn(second, "owner@exa.example", vault.OwnerPassword)
		second.see("Northwind University")
		second.open(panel + "/approvals")
		second.press("Class of 2026")
		second.press("Approve all (3)")
		second.see("Approved certificates: 3")

		eventually(t, batchTime, "the batch is finished", func() bool { return f.batch(t, accepted.BatchID).Approved == 3 })
		for _, e := range f.entriesOf(t, accepted.BatchID) {
			c, err := f.api(t).Certificate(ctx, *e.UUID)
			if err != nil {
				t.Fatal(err)
			}
			if c.TotalSignatures == nil || *c.TotalSignatures != 2 || *c.ApprovedSignatures != 2 || c.Signatures[0].Designation == nil || *c.Signatures[0].Designation != "Dean" {
				t.Errorf("signatures of %s = %+v, want two approvals, the first with the designation Dean", c.Name, c.Signatures)
			}
			eventually(t, approvalTime, "the webhooks of "+c.Name+" arrive", func() bool {
				got := events(t, r, *e.UUID)
				return got["created"] != nil && got["approved"] != nil
			})
		}
		b.open(panel + "/signature")
		b.see("My signature", "Save the picture")
		b.screenshot("signature")
		b.open(panel + "/signatories")
		b.see("All signatories can approve certificates")
	})
}

// choose returns a script that selects an option of the select element with the given id, by its index.
func choose(id string, option int) string {
	return `document.readyState == "complete" && (() => { const list = document.getElementById("` + id + `"); if (list) list.selectedIndex = ` + string(rune('0'+option)) + `; return list?.value != ""; })()`
}
