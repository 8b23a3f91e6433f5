package api

import (
	"bytes"
	"maps"
	"net/http"
	"net/url"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/uuid"

	"github.com/certvault/certvault/internal/db"
	"github.com/certvault/certvault/internal/db/dbtest"
	"github.com/certvault/certvault/internal/listing"
	"github.com/certvault/certvault/internal/token"
)

// generalFields maps the name of each field of a general certificate to the statuses in which the field
// is null. The letters of the statuses are those of recordFields.
var generalFields = map[string]string{
	"id": "", "reference_id": "", "certificate_title": "", "name": "", "email": "", "status": "", "source": "", "issue_date": "", "generated_at": "pf", "expires_on": "pafr", "expired": "",
	"batch_id": "pafr", "batch": "pafr", "customer_id": "pafr", "creator": "", "pdf_path": "pfr", "image_path": "pfr", "qrcode_path": "", "barcode_path": "",
	"signatures": "", "created_at": "", "updated_at": "",
}

func checkGeneral(t *testing.T, status string, record map[string]any) {
	t.Helper()
	if got, want := slices.Sorted(maps.Keys(record)), slices.Sorted(maps.Keys(generalFields)); !slices.Equal(got, want) {
		t.Errorf("%s: the fields are %v, want %v", status, got, want)
	}
	for name, null := range generalFields {
		if (record[name] == nil) != strings.Contains(null, status[:1]) {
			t.Errorf("%s: %s = %v, want null in the statuses %q, and a value in all others", status, name, record[name], null)
		}
	}
	want := map[string]string{"processing": "processing", "approved": "generated", "failed": "failed", "revoked": "revoked"}[status]
	state, _ := record["status"].(map[string]any)
	if len(state) != 3 || state["value"] != want || state["label"] == "" || state["description"] == "" {
		t.Errorf("%s: the status is %v, want the value %s with a label and a description", status, state, want)
	}
}

// general returns the ids of the general certificates in the list that the query selects.
func (v *vault) general(query string) (list []string) {
	v.tb.Helper()
	a := v.get("/business/certificates" + query)
	if a.Status != http.StatusOK {
		v.tb.Fatalf("%s: status = %d, want 200; body %s", query, a.Status, a.Body)
	}
	list = []string{}
	for _, record := range a.json(v.tb)["data"].([]any) {
		list = append(list, record.(map[string]any)["id"].(string))
	}
	return list
}

func TestGeneralRecordInEachStatus(t *testing.T) {
	t.Parallel()
	dbtest.Each(t, func(t *testing.T, d *db.DB) {
		v := newVault(t, d, 0)
		made := v.upload("diploma.pdf")
		id, reference := made["uuid"].(string), made["reference_id"].(string)
		view := func(id string) map[string]any { return data(t, v.get("/business/certificates/"+id)) }
		processing := view(id)
		checkGeneral(t, "processing", processing)
		for name, want := range map[string]any{
			"id": id, "reference_id": reference, "certificate_title": made["certificate_title"], "name": "Ada Obi", "email": "ada@example.org",
			"source": made["source"], "issue_date": made["issue_date"], "qrcode_path": made["qrcode_path"], "barcode_path": made["barcode_path"],
			"signatures": []any{}, "created_at": made["created_at"],
		} {
			if !reflect.DeepEqual(processing[name], want) {
				t.Errorf("%s is %v, want %v", name, processing[name], want)
			}
		}
		creator, _ := processing["creator"].(map[string]any)
		if len(creator) != 3 || creator["type"] != "token" || creator["name"] != "Registry" || creator["id"] == nil {
			t.Errorf("the creator is %v, want the token Registry with its id", creator)
		}
		failing := v.upload("refuse.pdf")["uuid"].(string)
		v.Work(2)
		checkGeneral(t, "failed", view(failing))
		approved := view(id)
		checkGeneral(t, "approved", approved)
		if vault := data(t, v.get("/business/certificate-vault/"+id)); approved["generated_at"] != vault["approved_at"] || approved["updated_at"] != vault["updated_at"] {
			t.Errorf("generated_at = %v and updated_at = %v, want the times of the vault certificate %v", approved["generated_at"], approved["updated_at"], vault)
		}
		if a := v.get("/business/certificates/" + id + "/download"); a.Status != http.StatusOK || !bytes.Equal(a.Body, append(samplePDF(0), tail...)) ||
			a.Header.Get("Content-Type") != "application/pdf" {
			t.Errorf("downloading: status = %d, %d bytes, want 200 with the verified PDF", a.Status, len(a.Body))
		}
		if a := v.get("/business/certificates/" + failing + "/download"); a.Status != http.StatusNotFound {
			t.Errorf("downloading a failed certificate: status = %d, want 404", a.Status)
		}
		if a := v.postJSON("/business/certificate-vault/"+id+"/revoke", `{"reason": "x"}`); a.Status != http.StatusOK {
			t.Fatalf("revoking: status = %d, want 200; body %s", a.Status, a.Body)
		}
		revoked := view(id)
		checkGeneral(t, "revoked", revoked)
		// Record that the files were deleted after their retention.
		if err := v.DB.Tx(t.Context(), func(tx *db.Tx) error {
			_, err := tx.ExecContext(t.Context(), `UPDATE certificates SET files_ended_at = 1, original_key = '', tail_key = '' WHERE uuid = $1`, id)
			return err
		}); err != nil {
			t.Fatal(err)
		}
		for _, path := range []string{"/business/certificates/", "/business/certificate-vault/"} {
			if a := v.get(path + id + "/download"); a.Status != http.StatusNotFound || !strings.Contains(string(a.Body), "The files of this certificate are no longer available") {
				t.Errorf("downloading deleted files from %s: status = %d, want 404 with the reason; body %s", path, a.Status, a.Body)
			}
		}
		if again := view(id); !reflect.DeepEqual(again, revoked) {
			t.Errorf("the record after the files were deleted is %v, want %v", again, revoked)
		}
		list := v.get("/business/certificates").json(t)["data"].([]any)
		if len(list) != 2 || !reflect.DeepEqual(list[1], any(revoked)) {
			t.Errorf("the list is %v, want two records, of which the last is %v", list, revoked)
		}
	})
}

func TestGeneralBatch(t *testing.T) {
	t.Parallel()
	v := newVault(t, dbtest.SQLite(t), 0)
	named, foreign, single := v.upload("a.pdf")["uuid"].(string), v.upload("b.pdf")["uuid"].(string), v.upload("c.pdf")["uuid"].(string)
	first, second := uuid.NewString(), uuid.NewString()
	v.exec(`UPDATE certificates SET batch_id = $1 WHERE uuid = $2`, first, named)
	v.exec(`UPDATE certificates SET batch_id = $1 WHERE uuid = $2`, second, foreign)
	other := v.institution("OTHER")
	for id, owner := range map[string]int64{first: v.inst.ID, second: other.ID} {
		v.exec(`INSERT INTO batches (uuid, institution_id, name, source, trigger_context, creator_type, creator_id, creator_name, total, created_at)
			VALUES ($1, $2, 'Class of 2026', 'vault', 'bulk_upload', 'token', 1, 'x', 1, 0)`, id, owner)
	}
	for id, want := range map[string]any{named: map[string]any{"id": first, "name": "Class of 2026"}, foreign: nil, single: nil} {
		if got := data(t, v.get("/business/certificates/"+id))["batch"]; !reflect.DeepEqual(got, want) {
			t.Errorf("the batch is %v, want %v", got, want)
		}
	}
	if got := v.general("?batch_id=" + strings.ToUpper(first)); !slices.Equal(got, []string{named}) {
		t.Errorf("the list of the batch is %v, want only %s", got, named)
	}
	if got := v.general("?batch_id=" + uuid.NewString()); len(got) != 0 {
		t.Errorf("the list of an unknown batch is %v, want none", got)
	}
	if got := v.general(""); len(got) != 3 {
		t.Errorf("the list is %v, want 3 certificates", got)
	}
}

// A token that has only the permissions for vault certificates can read only vault certificates.
func TestGeneralForVaultTokens(t *testing.T) {
	t.Parallel()
	v := newVault(t, dbtest.SQLite(t), 0)
	vaults, others := v.upload("a.pdf")["uuid"].(string), v.upload("b.pdf")["uuid"].(string)
	v.Work(2)
	v.exec(`UPDATE certificates SET source = 'elsewhere' WHERE uuid = $1`, others)
	for _, tc := range []struct {
		permission token.Permission
		path       string
		other      int
	}{
		{token.CertificateView, "", http.StatusOK},
		{token.VaultView, "", http.StatusNotFound},
		{token.CertificateDownload, "/download", http.StatusOK},
		{token.VaultDownload, "/download", http.StatusNotFound},
	} {
		v.secret = v.token(v.inst, nil, tc.permission)
		if a := v.get("/business/certificates/" + vaults + tc.path); a.Status != http.StatusOK {
			t.Errorf("%s, a vault certificate: status = %d, want 200; body %s", tc.permission, a.Status, a.Body)
		}
		if a := v.get("/business/certificates/" + others + tc.path); a.Status != tc.other {
			t.Errorf("%s, a certificate of another source: status = %d, want %d; body %s", tc.permission, a.Status, tc.other, a.Body)
		}
	}
	v.secret = v.token(v.inst, nil, token.VaultList)
	if got := v.general(""); !slices.Equal(got, []string{vaults}) {
		t.Errorf("the list with the permission for vault certificates is %v, want only the vault certificate", got)
	}
}

func TestGeneralListFilters(t *testing.T) {
	t.Parallel()
	v := newVault(t, dbtest.SQLite(t), 0)
	approved, failed := v.upload("a.pdf"), v.upload("refuse.pdf")
	v.Work(2)
	processing := v.upload("c.pdf")
	id := func(m map[string]any) string { return m["uuid"].(string) }
	v.exec(`UPDATE certificates SET issue_date = '2024-02-29', full_name = 'Zoë', customer_id = 41 WHERE uuid = $1`, id(failed))
	today := time.Now().UTC().Format(time.DateOnly)
	all := []string{id(processing), id(failed), id(approved)}
	for query, want := range map[string][]string{
		"": all, "?status=": all, "?sort_field=&sort_order=&cursor=": all, "?search=ada+obi": all, "?search=ad": all,
		"?status=generated": {id(approved)}, "?status=failed": {id(failed)}, "?status=processing": {id(processing)}, "?status=revoked": {}, "?status=pending": {},
		"?issue_date_to=2024-02-29": {id(failed)}, "?issue_date_from=2024-02-29&issue_date_to=2024-02-29": {id(failed)}, "?issue_date_to=2024-02-28": {},
		"?issue_date_from=2024-03-01": {id(processing), id(approved)}, "?generated_at_from=" + today: {id(approved)}, "?generated_at_to=" + today: {id(approved)},
		"?generated_at_to=2020-01-01": {}, "?generated_at_from=2020-01-01&status=failed": {}, "?customer_id=41": {id(failed)}, "?customer_id=42": {},
		"?sort_field=created_at&sort_order=asc": {id(approved), id(failed), id(processing)}, "?sort_order=asc": {id(approved), id(failed), id(processing)},
		"?sort_field=status&sort_order=asc": {id(failed), id(approved), id(processing)}, "?sort_field=status": {id(processing), id(approved), id(failed)},
		"?sort_field=issue_date&sort_order=asc&search=" + failed["reference_id"].(string): {id(failed)},
		"?sort_field=generated_at":                {id(approved), id(processing), id(failed)},
		"?sort_field=generated_at&sort_order=asc": {id(failed), id(processing), id(approved)},
		"?search=" + url.QueryEscape("Ada") + "&status=generated&issue_date_from=2024-01-01&generated_at_to=" + today + "&sort_field=email": {id(approved)},
	} {
		if got := v.general(query); !slices.Equal(got, want) {
			t.Errorf("%q: the list is %v, want %v", query, got, want)
		}
	}
	for query, fields := range map[string]string{
		"?applicant_email=ada@example.org": "applicant_email", "?status=approved": "status", "?status=in_review": "status", "?sort_field=title": "sort_field", "?sort_order=up": "sort_order",
		"?sort_order=DESC": "sort_order", "?issue_date_from=2024-02-30": "issue_date_from", "?issue_date_to=29.02.2024": "issue_date_to", "?generated_at_from=yesterday": "generated_at_from",
		"?generated_at_to=2024-02-29T00:00:00Z": "generated_at_to", "?batch_id=7": "batch_id", "?batch_id=%7B" + unknownID + "%7D": "batch_id", "?customer_id=x": "customer_id",
		"?customer_id=0": "customer_id", "?customer_id=-1": "customer_id", "?customer_id=9223372036854775808": "customer_id", "?page=1&cursor=": "page", "?cursor=x": "cursor",
		"?search=a&search=b": "search", "?search[]=a": "search[]", "?search=%00": "search", "?page=101&per_page=100": "page", "?per_page=101": "per_page",
		"?status=x&sort_field=y&batch_id=z": "batch_id sort_field status",
	} {
		a := v.get("/business/certificates" + query)
		if query == "?status=x&sort_field=y&batch_id=z" {
			fields = "sort_field status" // the batch id is checked later, if readFilter returns no error
		}
		if a.Status != http.StatusUnprocessableEntity || a.fields(t) != fields {
			t.Errorf("%q: status = %d, want 422 for %s; body %s", query, a.Status, fields, a.Body)
		}
	}
	for query, fields := range map[string]string{"?sort_field=name": "sort_field", "?sort_order=asc": "sort_order", "?batch_id=" + unknownID: "batch_id", "?status=generated": "status"} {
		if a := v.get("/business/certificate-vault" + query); a.Status != http.StatusUnprocessableEntity || a.fields(t) != fields {
			t.Errorf("the list of vault certificates with %q: status = %d, want 422 for %s; body %s", query, a.Status, fields, a.Body)
		}
	}
}

func TestListByCursor(t *testing.T) {
	t.Parallel()
	dbtest.Each(t, func(t *testing.T, d *db.DB) {
		v := newVault(t, d, 0)
		var newest []any
		for range 5 {
			newest = append([]any{v.upload("diploma.pdf")["uuid"]}, newest...)
		}
		for path, key := range map[string]string{"/business/certificate-vault": "uuid", "/business/certificates": "id"} {
			var visited []any
			last := ""
			for next := any(base + path + "?cursor=&per_page=2&search=ada+obi"); next != nil; {
				to, err := url.Parse(next.(string))
				if err != nil {
					t.Fatal(err)
				}
				a := v.get(to.RequestURI())
				got := a.json(t)
				for _, record := range got["data"].([]any) {
					visited = append(visited, record.(map[string]any)[key])
				}
				links, meta := got["links"].(map[string]any), got["meta"].(map[string]any)
				next = links["next"]
				wantMeta := map[string]any{
					"current_page": nil, "from": nil, "last_page": nil, "path": base + path, "per_page": 2.0, "to": nil, "total": nil, "next_cursor": meta["next_cursor"],
				}
				if !reflect.DeepEqual(meta, wantMeta) || links["first"] != base+path+"?cursor=&per_page=2&search=ada+obi" || links["last"] != nil || links["prev"] != nil {
					t.Errorf("the page is %s, want the path, the page size and the first link, and no page numbers", a.Body)
				}
				if next != nil {
					last = meta["next_cursor"].(string)
					if next != base+path+"?cursor="+last+"&per_page=2&search=ada+obi" {
						t.Errorf("the next link is %v, want one with the cursor %s and the filters", next, last)
					}
				}
			}
			if !slices.Equal(visited, newest) {
				t.Errorf("%s: the list by cursor is %v, want %v", path, visited, newest)
			}
			for query, fields := range map[string]string{
				"?cursor=" + last + "&search=ada": "cursor", "?cursor=" + last: "cursor", "?cursor=" + last[1:] + "&search=ada+obi": "cursor", "?cursor=&cursor=": "cursor",
				"?page=1&cursor=" + last + "&search=ada+obi": "page",
			} {
				if a := v.get(path + query); a.Status != http.StatusUnprocessableEntity || a.fields(t) != fields {
					t.Errorf("%q: status = %d, want 422 for %s; body %s", query, a.Status, fields, a.Body)
				}
			}
			for _, query := range []string{"?page=101&per_page=100", "?page=10001&per_page=1", "?page=667", "?page=2147483647"} {
				if a := v.get(path + query); a.Status != http.StatusUnprocessableEntity || a.fields(t) != "page" || !strings.Contains(a.problem(t).Message, "cursor=") {
					t.Errorf("%q: status = %d, want 422 for the page, with a message about cursor=; body %s", query, a.Status, a.Body)
				}
			}
		}
	})
}

// Only the first 10,000 records are on pages with a number. The next link of the last of these pages
// contains a cursor.
func TestCursorAfterLastPage(t *testing.T) {
	t.Parallel()
	total := 1_000_000
	query := url.Values{"page": {"100"}, "per_page": {"100"}, "search": {"x"}}
	r := listing.Range{Page: 100, PerPage: 100}
	p := paged("/list", query, r, listing.Part{Total: &total, More: true, Next: "abc"}, 100, nil)
	if p.Links.Next == nil || *p.Links.Next != "/list?cursor=abc&per_page=100&search=x" || p.Meta.NextCursor == nil || *p.Meta.NextCursor != "abc" {
		t.Errorf("the next link is %v and the next cursor is %v, want a link with the cursor abc, and abc", p.Links.Next, p.Meta.NextCursor)
	}
	if p.Meta.LastPage == nil || *p.Meta.LastPage != 10_000 || *p.Meta.Total != total || p.Links.Last != nil {
		t.Errorf("the number of the last page is %v and its link is %v, want 10,000 and no link", p.Meta.LastPage, p.Links.Last)
	}
	r.Page = 99
	p = paged("/list", query, r, listing.Part{AtLeast: 10_000, More: true, Next: "abc"}, 100, nil)
	if p.Links.Next == nil || *p.Links.Next != "/list?page=100&per_page=100&search=x" || p.Meta.NextCursor != nil {
		t.Errorf("the next link before the last page with a number is %v, want a link to page 100 without a cursor", p.Links.Next)
	}
	if p.Meta.Total != nil || p.Meta.LastPage != nil || p.Links.Last != nil || p.Meta.TotalAtLeast == nil || *p.Meta.TotalAtLeast != 10_000 {
		t.Errorf("the meta data is %+v, want only the minimum total of 10,000", p.Meta)
	}
}
