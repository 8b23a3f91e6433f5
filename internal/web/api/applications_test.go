package api

import (
	"bytes"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/certvault/certvault/internal/application"
	"github.com/certvault/certvault/internal/db"
	"github.com/certvault/certvault/internal/db/dbtest"
	"github.com/certvault/certvault/internal/token"
	"github.com/certvault/certvault/internal/vaulttest"
)

const applicationRoute = "/business/certificate-applications"

// questions are the fields of the offers of the tests.
var questions = []application.Field{
	{Key: "number", Label: "Student number", Type: application.Line, Required: true}, {Key: "year", Label: "Year", Type: application.Number},
	{Key: "level", Label: "Level", Type: application.Choice, Choices: []string{"BSc", "MSc"}}, {Key: "agree", Label: "I agree", Type: application.Check},
	{Key: "id_card", Label: "ID card", Type: application.Upload},
}

// offer creates an open offer. Each change may modify its input.
func (v *vault) offer(slug string, changes ...func(*application.OfferInput)) *application.Offer {
	v.tb.Helper()
	in := application.OfferInput{Slug: slug, Name: "Transcript of records", Fields: slices.Clone(questions), MaxFiles: 2}
	for _, change := range changes {
		change(&in)
	}
	o, err := v.Applications.CreateOffer(v.tb.Context(), v.inst, in)
	if err == nil {
		o, err = v.Applications.SetOfferStatus(v.tb.Context(), v.inst.ID, o.UUID, application.Open)
	}
	if err != nil {
		v.tb.Fatal(err)
	}
	return o
}

// applyAs returns the text fields of an application.
func applyAs(offer, name string) []part {
	return []part{
		text("offer", offer), text("full_name", name), text("applicant_email", strings.ReplaceAll(strings.ToLower(name), " ", ".")+"@example.org"),
		text("fields[number]", "4711"),
	}
}

func attachment(name string) part {
	return part{name: "files[id_card]", file: name, content: samplePDF(0)}
}

// sendForm sends a form with an idempotency key, or without one if the key is "".
func (v *vault) sendForm(path, key string, parts ...part) *response {
	v.tb.Helper()
	r := v.request(http.MethodPost, path, bytes.NewReader(form(v.tb, parts...)))
	r.Header.Set("Content-Type", "multipart/form-data; boundary="+boundary)
	if key != "" {
		r.Header.Set("Idempotency-Key", key)
	}
	return v.do(r)
}

// apply submits an application and returns its record.
func (v *vault) apply(parts ...part) map[string]any {
	v.tb.Helper()
	a := v.sendForm(applicationRoute, "", parts...)
	if a.Status != http.StatusCreated {
		v.tb.Fatalf("submitting an application: status = %d, want 201; body %s", a.Status, a.Body)
	}
	return data(v.tb, a)
}

// step sends a step of a review, without a body if body is "".
func (v *vault) step(record map[string]any, name, body string) *response {
	v.tb.Helper()
	path := fmt.Sprint(applicationRoute, "/", record["uuid"], "/", name)
	if body == "" {
		return v.do(v.request(http.MethodPost, path, http.NoBody))
	}
	return v.postJSON(path, body)
}

func statusIn(record map[string]any) any { return record["status"].(map[string]any)["value"] }

// values returns the named fields of a record and their values as text.
func values(record map[string]any, names ...string) string {
	var b strings.Builder
	for _, name := range names {
		fmt.Fprintf(&b, "%s=%v ", name, record[name])
	}
	return b.String()
}

func TestOffers(t *testing.T) {
	t.Parallel()
	dbtest.Each(t, func(t *testing.T, d *db.DB) {
		v := newVault(t, d, 0)
		for i := range 5 {
			v.offer(fmt.Sprintf("offer-%d", i))
		}
		if _, err := v.Applications.CreateOffer(t.Context(), v.inst, application.OfferInput{Slug: "draft", Name: "A draft"}); err != nil {
			t.Fatal(err)
		}
		slugs := func(query string) (list []string, next string) {
			body := v.get("/business/certificate-offers" + query).json(t)
			for _, o := range body["data"].([]any) {
				list = append(list, o.(map[string]any)["slug"].(string))
			}
			next, _ = body["links"].(map[string]any)["next"].(string)
			return list, strings.TrimPrefix(next, base+"/business/certificate-offers")
		}
		all, _ := slugs("")
		if fmt.Sprint(all) != "[draft offer-4 offer-3 offer-2 offer-1 offer-0]" {
			t.Errorf("offers = %v, want the newest first", all)
		}
		for _, query := range []string{"?status=open&per_page=2", "?status=open&per_page=2&cursor="} {
			var read []string
			for pages := 0; query != "" && pages < 9; pages++ {
				var part []string
				part, query = slugs(query)
				read = append(read, part...)
			}
			if fmt.Sprint(read) != "[offer-4 offer-3 offer-2 offer-1 offer-0]" {
				t.Errorf("the pages contain the offers %v, want the five open offers, the newest first", read)
			}
		}
		for _, query := range []string{"?status=x", "?page=0", "?page=101&per_page=100", "?cursor=x", "?no_such=1"} {
			if a := v.get("/business/certificate-offers" + query); a.Status != http.StatusUnprocessableEntity {
				t.Errorf("%s: status = %d, want 422", query, a.Status)
			}
		}
		o := v.offer("last", func(in *application.OfferInput) { in.Description, in.FourEyes, in.HoldDays = "All grades.", true, 7 })
		got := data(t, v.get("/business/certificate-offers/"+o.UUID))
		want := "slug=last name=Transcript of records description=All grades. criteria=<nil> status=open template_id=<nil> four_eyes=true hold_days=7 max_files=2 url=" + base + "/apply/nwu/last "
		if g := values(got, "slug", "name", "description", "criteria", "status", "template_id", "four_eyes", "hold_days", "max_files", "url"); g != want {
			t.Errorf("offer = %s, want %s", g, want)
		}
		if g := fmt.Sprint(got["fields"].([]any)[2]); g != "map[choices:[BSc MSc] column:<nil> help:<nil> key:level label:Level required:false type:choice]" {
			t.Errorf("field = %s, want the choice between BSc and MSc", g)
		}
		v.secret = v.token(v.institution("OTH"), nil, token.All...)
		if a := v.get("/business/certificate-offers/" + o.UUID); a.Status != http.StatusNotFound {
			t.Errorf("the offer of another institution: status = %d, want 404", a.Status)
		}
	})
}

func TestSubmitApplication(t *testing.T) {
	t.Parallel()
	dbtest.Each(t, func(t *testing.T, d *db.DB) {
		v := newVault(t, d, 0)
		o := v.offer("transcript")
		parts := append(applyAs("transcript", "Ada Obi"), text("fields[agree]", "on"), attachment("front.pdf"), text("fields[year]", "2026"), attachment("back.pdf"))
		first := v.sendForm(applicationRoute, "key", parts...)
		if first.Status != http.StatusCreated {
			t.Fatalf("status = %d, want 201; body %s", first.Status, first.Body)
		}
		again := v.sendForm(applicationRoute, "key", parts...)
		if again.Status != http.StatusCreated || again.Header.Get("Idempotency-Replayed") != "true" || !bytes.Equal(again.Body, first.Body) {
			t.Errorf("the same request: status = %d, header %v, want the first response", again.Status, again.Header)
		}
		parts[len(parts)-1].content = samplePDF(5000)
		if other := v.sendForm(applicationRoute, "key", parts...); other.Status != http.StatusUnprocessableEntity || other.fields(t) != "Idempotency-Key" {
			t.Errorf("another file with the key: status = %d, body %s, want 422 for the key", other.Status, other.Body)
		}
		if rows, files := v.stored(); rows != 1 || files != 2 {
			t.Errorf("%d records and %d files are stored, want 1 and 2", rows, files)
		}
		got := data(t, first)
		for name, want := range map[string]string{
			"status": "map[description:The application waits for a reviewer or, after its approval, for the signatories. label:Pending value:pending]",
			"offer":  "map[id:" + o.UUID + " name:Transcript of records slug:transcript]", "full_name": "Ada Obi", "applicant_email": "ada.obi@example.org",
			"certificate_title": "Transcript of records", "hold": "<nil>", "claimed_by": "<nil>", "decided_by": "<nil>", "note": "<nil>", "register_advice": "<nil>",
			"fields": "[map[key:number label:Student number type:text value:4711] map[key:year label:Year type:number value:2026]" +
				" map[key:level label:Level type:choice value:<nil>] map[key:agree label:I agree type:check value:yes]]",
		} {
			if fmt.Sprint(got[name]) != want {
				t.Errorf("%s = %v, want %s", name, got[name], want)
			}
		}
		if viewed := data(t, v.get(applicationRoute+"/"+got["uuid"].(string))); fmt.Sprint(viewed) != fmt.Sprint(got) {
			t.Errorf("the view is %v, want %v", viewed, got)
		}
		list := got["files"].([]any)
		if len(list) != 2 {
			t.Fatalf("files = %v, want two", list)
		}
		for i, name := range []string{"front.pdf", "back.pdf"} {
			f := list[i].(map[string]any)
			a := v.get(f["path"].(string))
			if f["name"] != name || f["field"] != "id_card" || !bytes.Equal(a.Body, samplePDF(0)) || a.Header.Get("Content-Type") != "application/pdf" ||
				a.Header.Get("X-Content-Type-Options") != "nosniff" || !strings.Contains(a.Header.Get("Content-Security-Policy"), "sandbox") ||
				a.Header.Get("Content-Disposition") != "attachment; filename="+name {
				t.Errorf("file %v: header %v, want the PDF %s as an attachment with nosniff and sandbox", f, a.Header, name)
			}
		}

		asJSON := v.postJSON(applicationRoute, `{"offer": "`+o.UUID+`", "full_name": "Bo Ek", "applicant_email": "bo@example.org",
			"fields": {"number": 12, "agree": true, "year": null, "level": "MSc"}, "files": {}, "unknown": 1}`)
		if asJSON.Status != http.StatusCreated || !strings.Contains(fmt.Sprint(data(t, asJSON)["fields"]), "value:12") {
			t.Errorf("as JSON: status = %d, body %s, want 201 with the number 12", asJSON.Status, asJSON.Body)
		}

		// In the general interface, the application is a pending certificate.
		general := data(t, v.get("/business/certificates/"+got["uuid"].(string)))
		if statusIn(general) != "pending" || general["pdf_path"] != nil || general["image_path"] != nil || general["generated_at"] != nil ||
			fmt.Sprint(general["source"]) != "map[label:Customer value:customer]" || general["reference_id"] != got["reference_id"] {
			t.Errorf("the certificate is %v, want a pending certificate without files", general)
		}
		if n := len(v.get("/business/certificates?source=customer&status=pending").json(t)["data"].([]any)); n != 2 {
			t.Errorf("%d pending certificates of customers are listed, want 2", n)
		}
		vaultView := data(t, v.get("/business/certificate-vault/"+got["uuid"].(string)))
		if vaultView["id"] != got["id"] || vaultView["file"] != nil || vaultView["trigger_context"] != "customer_submission" || statusIn(vaultView) != "pending" {
			t.Errorf("as a vault certificate, the application is %v, want a pending certificate without a file", vaultView)
		}
		for _, name := range []string{"retry", "revoke"} {
			if a := v.postJSON("/business/certificate-vault/"+got["uuid"].(string)+"/"+name, `{"reason": "x"}`); a.Status != http.StatusBadRequest {
				t.Errorf("%s of a pending application: status = %d, want 400", name, a.Status)
			}
		}
	})
}

func TestProblemsOfApplications(t *testing.T) {
	t.Parallel()
	v := newVault(t, dbtest.SQLite(t), 0)
	v.offer("transcript")
	v.offer("one", func(in *application.OfferInput) { in.Fields[4].Required = true })
	closed := v.offer("closed")
	if _, err := v.Applications.SetOfferStatus(t.Context(), v.inst.ID, closed.UUID, application.Closed); err != nil {
		t.Fatal(err)
	}
	existing := v.apply(applyAs("transcript", "Ada Obi")...)
	rows, files := v.stored()
	valid := func(more ...part) []part { return append(applyAs("transcript", "Bo Ek"), more...) }
	png := part{name: "files[id_card]", file: "a.pdf", content: []byte("\x89PNG")}
	for what, tc := range map[string]struct {
		parts  []part
		fields string
	}{
		"nothing":             {nil, "offer"},
		"no fields":           {[]part{text("offer", "transcript")}, "applicant_email fields.number full_name"},
		"an unknown offer":    {applyAs("no-such", "Bo Ek"), "offer"},
		"a closed offer":      {applyAs("closed", "Bo Ek"), "offer"},
		"an open application": {applyAs("transcript", "Ada Obi"), "applicant_email existing_uuid"},
		"a field twice":       {valid(text("fields[number]", "1")), "fields.number"},
		"wrong values":        {valid(text("fields[year]", "x"), text("fields[level]", "PhD"), text("fields[agree]", "maybe")), "fields.agree fields.level fields.year"},
		"an unknown field":    {valid(text("fields[shoe_size]", "44")), "fields.shoe_size"},
		"a text as a file":    {valid(text("files[id_card]", "x")), "files.id_card"},
		"a file as a text":    {valid(part{name: "fields[level]", file: "a.txt", content: []byte("BSc")}), "fields.level"},
		"a list":              {append(valid(), text("full_name[]", "x")), "full_name"},
		"no key":              {valid(text("fields", "x")), "fields"},
		"a refused file":      {valid(attachment("good.pdf"), png), "files.id_card"},
		"a file of no field":  {valid(part{name: "files[photo]", file: "a.pdf", content: samplePDF(0)}), "files.photo"},
		"too many files":      {valid(attachment("a.pdf"), attachment("b.pdf"), attachment("c.pdf")), "files"},
		"more than ten files": {valid(slices.Repeat([]part{attachment("a.pdf")}, 11)...), "files.id_card"},
		"a missing file":      {applyAs("one", "Bo Ek"), "files.id_card"},
		"an invalid address":  {append(applyAs("transcript", "Bo")[:2], text("applicant_email", "bo"), text("fields[number]", "1")), "applicant_email"},
	} {
		a := v.sendForm(applicationRoute, "", tc.parts...)
		if a.Status != http.StatusUnprocessableEntity || a.fields(t) != tc.fields {
			t.Errorf("%s: status = %d, body %s, want 422 for %s", what, a.Status, a.Body, tc.fields)
		}
	}
	if a := v.sendForm(applicationRoute, "", applyAs("transcript", "Ada Obi")...); a.problem(t).Errors["existing_uuid"][0] != existing["uuid"] {
		t.Errorf("body %s, want the UUID of the open application", a.Body)
	}
	for body, want := range map[string]string{
		`{"offer": "transcript", "full_name": "Bo", "applicant_email": "bo@example.org", "fields": {"number": ["1"]}}`:              "fields.number",
		`{"offer": "transcript", "full_name": "Bo", "applicant_email": "bo@example.org", "fields": {"number": "1", "number": "2"}}`: "fields.number",
		`{"offer": "transcript", "full_name": "Bo", "applicant_email": "bo@example.org", "fields": "1"}`:                            "fields",
		`{"offer": "transcript", "full_name": "Bo", "applicant_email": "bo@example.org", "files": {"id_card": "x"}}`:                "files",
		`{"offer": "transcript", "full_name": 1}`: "full_name",
	} {
		if a := v.postJSON(applicationRoute, body); a.Status != http.StatusUnprocessableEntity || a.fields(t) != want {
			t.Errorf("%s: status = %d, body %s, want 422 for %s", body, a.Status, a.Body, want)
		}
	}
	if a := v.postJSON(applicationRoute, "[]"); a.Status != http.StatusUnprocessableEntity {
		t.Errorf("an array: status = %d, want 422", a.Status)
	}
	if nowRows, nowFiles := v.stored(); nowRows != rows || nowFiles != files {
		t.Errorf("%d records and %d files are stored, want %d and %d as before", nowRows, nowFiles, rows, files)
	}
}

func TestReviewOfApplications(t *testing.T) {
	t.Parallel()
	dbtest.Each(t, func(t *testing.T, d *db.DB) {
		v := newVault(t, d, 0)
		v.offer("transcript")
		ap := v.apply(applyAs("transcript", "Ada Obi")...)
		check := func(step, body string, status int, want string) map[string]any {
			t.Helper()
			a := v.step(ap, step, body)
			if a.Status != status {
				t.Fatalf("%s: status = %d, want %d; body %s", step, a.Status, status, a.Body)
			}
			switch status {
			case http.StatusBadRequest:
				if got := a.problem(t).Message; got != "Invalid operation" {
					t.Errorf("%s: message = %q, want \"Invalid operation\"", step, got)
				}
			case http.StatusUnprocessableEntity:
				if got := a.fields(t); got != want {
					t.Errorf("%s: the fields with errors are %q, want %q", step, got, want)
				}
			default:
				got := data(t, a)
				if statusIn(got) != want {
					t.Errorf("%s: status of the application = %v, want %s", step, statusIn(got), want)
				}
				return got
			}
			return nil
		}
		check("release", "", 400, "")
		claimed := check("claim", "", 200, "in_review")
		if by := claimed["claimed_by"].(map[string]any); by["type"] != "token" || by["name"] != "Registry" {
			t.Errorf("claimed_by = %v, want the token", by)
		}
		check("claim", "", 400, "")
		check("hold", `{"kind": "tea", "text": " "}`, 422, "kind text")
		held := check("hold", `{"kind": "payment", "text": "Please pay."}`, 200, "in_review")["hold"].(map[string]any)
		if held["kind"] != "payment" || held["text"] != "Please pay." || held["answer"] != nil || held["since"] == nil || held["until"] == nil {
			t.Errorf("hold = %v, want a payment without an answer", held)
		}
		if released := check("release", "", 200, "in_review"); released["hold"] != nil {
			t.Errorf("hold = %v, want none", released["hold"])
		}
		check("approve", "", 422, "certificate_file")
		check("approve", `{"issue_date": "2026-02-30"}`, 422, "certificate_file issue_date")
		check("approve", `{"expires_on": "2020-01-01"}`, 422, "certificate_file expires_on")
		path := fmt.Sprint(applicationRoute, "/", ap["uuid"], "/approve")
		broken := pdfFile([]byte("no PDF"))
		if a := v.sendForm(path, "", broken); a.Status != http.StatusUnprocessableEntity || a.fields(t) != "certificate_file" {
			t.Errorf("a broken file: status = %d, body %s, want 422 for certificate_file", a.Status, a.Body)
		}
		parts := []part{text("certificate_title", "Transcript 2026"), text("issue_date", "2026-06-30"), text("expires_on", "2029-06-30"), pdfFile(samplePDF(0))}
		first := v.sendForm(path, "key", parts...)
		if first.Status != http.StatusOK || statusIn(data(t, first)) != "processing" || data(t, first)["certificate_title"] != "Transcript 2026" {
			t.Fatalf("approve: status = %d, body %s, want 200 with the status processing and the new title", first.Status, first.Body)
		}
		if again := v.sendForm(path, "key", parts...); again.Header.Get("Idempotency-Replayed") != "true" || !bytes.Equal(again.Body, first.Body) {
			t.Errorf("the same approval: status = %d, body %s, want the first response", again.Status, again.Body)
		}
		for _, step := range []string{"claim", "release", "withdraw", "approve"} {
			check(step, "", 400, "")
		}
		check("reject", `{"reason": "x"}`, 400, "")
		check("hold", `{"kind": "identity", "text": "x"}`, 400, "")
		v.Settle()
		got := data(t, v.get(applicationRoute+"/"+ap["uuid"].(string)))
		if statusIn(got) != "approved" || got["decided_by"].(map[string]any)["type"] != "token" || got["decided_at"] == nil {
			t.Errorf("after the processing, the application is %v, want an approved application", got)
		}
		if general := data(t, v.get("/business/certificates/"+ap["uuid"].(string))); statusIn(general) != "generated" || general["pdf_path"] == nil || general["issue_date"] != "2026-06-30" {
			t.Errorf("the certificate is %v, want the generated certificate of 2026-06-30", general)
		}

		ap = v.apply(applyAs("transcript", "Bo Ek")...)
		check("reject", `{}`, 422, "reason")
		if got := check("reject", `{"reason": "Unknown number.", "note": "Register"}`, 200, "rejected"); got["rejection_reason"] != "Unknown number." || got["note"] != "Register" {
			t.Errorf("the rejected application is %v, want the reason and the note", got)
		}
		if a := v.get("/business/certificates/" + ap["uuid"].(string)); a.Status != http.StatusNotFound {
			t.Errorf("the certificate of a rejected application: status = %d, want 404", a.Status)
		}
		ap = v.apply(applyAs("transcript", "Bo Ek")...)
		check("withdraw", "", 200, "withdrawn")
		if n := v.count(`SELECT count(*) FROM webhook_events WHERE name = 'certificate_application.rejected' AND payload LIKE '%"rejection_reason":"Unknown number."%'`); n != 1 {
			t.Errorf("%d events contain the reason, want 1", n)
		}
	})
}

func TestApproveFromTemplate(t *testing.T) {
	t.Parallel()
	v := newVault(t, dbtest.SQLite(t), 0, vaulttest.DrawTemplates)
	template := strings.TrimPrefix(v.published(), "/business/certificate-templates/")
	v.offer("diploma", func(in *application.OfferInput) {
		in.TemplateID = template
		in.Fields = []application.Field{{Key: "grade", Label: "Grade", Type: application.Line, Column: "Grade", Required: true}}
	})
	parts := applyAs("diploma", "Ada Obi")
	ap := v.apply(append(parts[:3], text("fields[grade]", "A"))...)
	a := v.step(ap, "approve", "")
	if a.Status != http.StatusOK || statusIn(data(t, a)) != "processing" {
		t.Fatalf("status = %d, body %s, want 200 with the status processing", a.Status, a.Body)
	}
	v.Settle()
	if got := data(t, v.get(applicationRoute+"/"+ap["uuid"].(string))); statusIn(got) != "approved" {
		t.Errorf("the application is %v, want an approved application", got)
	}
}

// If eight decisions are sent at the same time, one succeeds. The status of the others is 409, or 400 if the
// application was already decided.
func TestReviewersAtOnce(t *testing.T) {
	t.Parallel()
	dbtest.Each(t, func(t *testing.T, d *db.DB) {
		v := newVault(t, d, 0)
		v.offer("transcript")
		ap := v.apply(applyAs("transcript", "Ada Obi")...)
		var wait sync.WaitGroup
		statuses := make([]int, 8)
		for i := range statuses {
			wait.Go(func() {
				if i%2 == 0 {
					statuses[i] = v.step(ap, "reject", `{"reason": "x"}`).Status
				} else {
					statuses[i] = v.sendForm(fmt.Sprint(applicationRoute, "/", ap["uuid"], "/approve"), "", pdfFile(samplePDF(0))).Status
				}
			})
		}
		wait.Wait()
		slices.Sort(statuses)
		if statuses[0] != http.StatusOK || statuses[1] == http.StatusOK || slices.ContainsFunc(statuses[1:], func(s int) bool { return s != 400 && s != 409 }) {
			t.Errorf("statuses = %v, want 200 once, and 400 or 409", statuses)
		}
	})
}

func TestListOfApplications(t *testing.T) {
	t.Parallel()
	v := newVault(t, dbtest.SQLite(t), 0)
	v.offer("transcript")
	letter := v.offer("letter")
	ada := v.apply(applyAs("transcript", "Ada Obi")...)
	v.apply(applyAs("letter", "Ada Obi")...)
	bo := v.apply(applyAs("letter", "Bo Ek")...)
	v.step(ada, "claim", "")
	v.step(bo, "hold", `{"kind": "payment", "text": "Please pay."}`)
	for query, want := range map[string]int{
		"": 3, "?status=pending": 2, "?status=in_review": 1, "?status=rejected": 0, "?offer=letter": 2, "?offer=" + letter.UUID: 2, "?applicant_email=ADA.OBI@example.org": 2,
		"?search=ada": 2, "?hold=payment": 1, "?hold=identity": 0, "?hold=any": 1, "?hold=none": 2, "?created_at_from=2000-01-01&created_at_to=2999-12-31": 3,
		"?created_at_to=2000-01-01": 0, "?sort_field=name&sort_order=asc&per_page=2": 2, "?cursor=": 3,
	} {
		a := v.get(applicationRoute + query)
		if a.Status != http.StatusOK || len(a.json(t)["data"].([]any)) != want {
			t.Errorf("%s: status = %d, want %d applications; body %s", query, a.Status, want, a.Body)
		}
	}
	for _, query := range []string{
		"?status=generated", "?offer=no-such", "?hold=x", "?created_at_from=today", "?sort_field=title", "?sort_order=up", "?page=0", "?cursor=x", "?no_such=1", "?search=a&search=b",
	} {
		if a := v.get(applicationRoute + query); a.Status != http.StatusUnprocessableEntity {
			t.Errorf("%s: status = %d, want 422", query, a.Status)
		}
	}
}

// With a token of another institution, the applications and offers of an institution are not found.
func TestApplicationsOfOtherInstitutions(t *testing.T) {
	t.Parallel()
	v := newVault(t, dbtest.SQLite(t), 0)
	v.offer("transcript")
	ap := v.apply(append(applyAs("transcript", "Ada Obi"), attachment("a.pdf"))...)
	file := ap["files"].([]any)[0].(map[string]any)["path"].(string)
	v.secret = v.token(v.institution("OTH"), nil, token.All...)
	for _, path := range []string{applicationRoute + "/" + ap["uuid"].(string), file} {
		if a := v.get(path); a.Status != http.StatusNotFound {
			t.Errorf("%s: status = %d, want 404", path, a.Status)
		}
	}
	for step, body := range map[string]string{"claim": "", "approve": "", "release": "", "withdraw": "", "reject": `{"reason": "x"}`, "hold": `{"kind": "payment", "text": "x"}`} {
		if a := v.step(ap, step, body); a.Status != http.StatusNotFound {
			t.Errorf("%s: status = %d, want 404", step, a.Status)
		}
	}
	if a := v.get(applicationRoute); len(a.json(t)["data"].([]any)) != 0 {
		t.Errorf("the list of another institution is %s, want an empty list", a.Body)
	}
	if a := v.sendForm(applicationRoute, "", applyAs("transcript", "Bo Ek")...); a.Status != http.StatusUnprocessableEntity || a.fields(t) != "offer" {
		t.Errorf("an application for the offer of another institution: status = %d, body %s, want 422 for offer", a.Status, a.Body)
	}
}
