package api

import (
	"fmt"
	"maps"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/certvault/certvault/internal/db"
	"github.com/certvault/certvault/internal/db/dbtest"
	"github.com/certvault/certvault/internal/token"
)

// checkBatch checks the fields of a batch, and that the counts add up to the total.
func checkBatch(t *testing.T, record map[string]any, id, status string, counts map[string]float64) {
	t.Helper()
	names := []string{
		"id", "batch_id", "name", "source", "status", "progress", "total", "processing", "approved", "failed", "rejected", "revoked", "created_at", "completed_at", "template",
	}
	if _, detail := record["entries"]; detail {
		names = append(names, "entries")
	}
	slices.Sort(names)
	if got := slices.Sorted(maps.Keys(record)); !slices.Equal(got, names) {
		t.Errorf("the fields are %v, want %v", got, names)
	}
	if record["id"] != id || record["batch_id"] != id || record["source"] != "bulk" || record["status"] != status || record["name"] == "" {
		t.Errorf("the batch is %v, want id %s and status %s", record, id, status)
	}
	sum := 0.0
	for _, name := range []string{"processing", "approved", "failed", "rejected", "revoked"} {
		sum += record[name].(float64)
		if record[name] != counts[name] {
			t.Errorf("%s: %v entries are %s, want %v", status, record[name], name, counts[name])
		}
	}
	if record["total"] != sum {
		t.Errorf("total = %v, but the sum of the counts is %v", record["total"], sum)
	}
	if (record["completed_at"] == nil) != (status == "processing") {
		t.Errorf("%s: completed_at = %v, want null if and only if the batch is processing", status, record["completed_at"])
	}
	for _, name := range []string{"created_at", "completed_at"} {
		s, ok := record[name].(string)
		if at, err := time.Parse(time.RFC3339Nano, s); ok && (err != nil || !strings.HasSuffix(s, "Z") || time.Since(at) > time.Hour) {
			t.Errorf("%s is %q, want a recent time in UTC", name, s)
		}
	}
}

func TestBatchLifecycle(t *testing.T) {
	t.Parallel()
	dbtest.Each(t, func(t *testing.T, d *db.DB) {
		v := newVault(t, d, 0)
		fine, refused := v.stage("diploma.pdf"), v.stage("refuse.pdf")
		fields := slices.Concat(entry(0, fine), entry(10, fine), entry(20, refused), entry(30, fine))
		// The last entry is a duplicate of the first entry.
		fields[len(fields)-2] = field{"entries[30][applicant_email]", "Person.0@EXAMPLE.org"}
		id := v.accept(v.postBulk(multipartType, multipartOf(t, fields)), 4)
		path := "/business/batches/" + id
		record := data(t, v.get(path))
		checkBatch(t, record, id, "processing", map[string]float64{"processing": 4})
		if record["progress"] != 0.0 {
			t.Errorf("progress at first = %v, want 0", record["progress"])
		}
		v.Work(3)
		record = data(t, v.get(path))
		checkBatch(t, record, id, "completed_with_errors", map[string]float64{"approved": 2, "failed": 1, "rejected": 1})
		if record["progress"] != 100.0 {
			t.Errorf("progress at the end = %v, want 100", record["progress"])
		}
		entries := record["entries"].([]any)
		first := entries[0].(map[string]any)["uuid"].(string)
		for i, want := range []map[string]any{
			{"index": 0.0, "status": "approved", "error": nil, "error_code": nil, "existing_uuid": nil},
			{"index": 10.0, "status": "approved", "error": nil, "error_code": nil, "existing_uuid": nil},
			{"index": 20.0, "status": "failed", "error": "There is no room for the stamp.", "error_code": "no_room", "existing_uuid": nil},
			{
				"index": 30.0, "status": "rejected", "error_code": "duplicate", "existing_uuid": first, "uuid": nil, "reference_id": nil,
				"error": "A vault certificate with this email, title, and issue date already exists: " + first,
			},
		} {
			got := entries[i].(map[string]any)
			if len(got) != 7 || (i < 3) != (got["uuid"] != nil && got["reference_id"] != nil) {
				t.Errorf("the entry is %v, want 7 fields, and an id and a reference id unless it is rejected", got)
			}
			for name, value := range want {
				if got[name] != value {
					t.Errorf("entry %d: %s is %v, want %v", i, name, got[name], value)
				}
			}
		}
		certificate := data(t, v.get("/business/certificate-vault/"+first))
		if certificate["batch_id"] != id || certificate["trigger_context"] != "bulk_upload" || certificate["full_name"] != "Person 0" {
			t.Errorf("the certificate is %v, want the bulk upload of Person 0 in the batch", certificate)
		}
		if a := v.get("/business/certificate-vault/" + first + "/download"); a.Status != http.StatusOK {
			t.Errorf("downloading the first certificate: status = %d, want 200", a.Status)
		}
		// A retry changes the status of the batch to processing again.
		failed := entries[2].(map[string]any)["uuid"].(string)
		if a := v.do(v.request(http.MethodPost, "/business/certificate-vault/"+failed+"/retry", http.NoBody)); a.Status != http.StatusOK {
			t.Fatalf("retrying: status = %d, want 200; body %s", a.Status, a.Body)
		}
		checkBatch(t, data(t, v.get(path)), id, "processing", map[string]float64{"approved": 2, "processing": 1, "rejected": 1})
	})
}

// walk follows the links of a list to its last page and returns all records.
func (v *vault) walk(path string, records func(data any) []any) (all []any) {
	v.tb.Helper()
	next := base + path + "&cursor="
	for range 100 {
		a := v.get(strings.TrimPrefix(next, base))
		if a.Status != http.StatusOK {
			v.tb.Fatalf("%s: status = %d, want 200; body %s", next, a.Status, a.Body)
		}
		body := a.json(v.tb)
		all = append(all, records(body["data"])...)
		meta, links := body["meta"].(map[string]any), body["links"].(map[string]any)
		if meta["current_page"] != nil || meta["last_page"] != nil || meta["total"] != nil || links["last"] != nil || links["prev"] != nil ||
			(links["next"] == nil) != (meta["next_cursor"] == nil) {
			v.tb.Errorf("%s: meta = %v, links = %v, want no page numbers, and a next link if and only if there is a next cursor", next, meta, links)
		}
		if links["next"] == nil {
			return all
		}
		next = links["next"].(string)
	}
	v.tb.Fatalf("%s has more than 100 pages", path)
	return nil
}

func TestBatchPages(t *testing.T) {
	t.Parallel()
	v := newVault(t, dbtest.SQLite(t), 0)
	file := v.stage("diploma.pdf")
	var fields []field
	for i := range 23 {
		fields = append(fields, entry(i*3, file)...)
	}
	id := v.accept(v.postBulk(multipartType, multipartOf(t, fields)), 23)
	path := "/business/batches/" + id
	for query, want := range map[string]struct {
		n, first int
		next     bool
	}{
		"": {15, 0, true}, "?page=2": {8, 45, false}, "?page=3": {0, 0, false}, "?per_page=100": {23, 0, false}, "?page=3&per_page=10": {3, 60, false},
		"?page=2&per_page=10": {10, 30, true},
	} {
		a := v.get(path + query)
		if a.Status != http.StatusOK {
			t.Fatalf("%q: status = %d, want 200; body %s", query, a.Status, a.Body)
		}
		body := a.json(t)
		list := body["data"].(map[string]any)["entries"].([]any)
		if len(list) != want.n || want.n > 0 && list[0].(map[string]any)["index"] != float64(want.first) {
			t.Errorf("%q: the entries are %v, want those of the page", query, list)
		}
		meta, links := body["meta"].(map[string]any), body["links"].(map[string]any)
		if meta["total"] != 23.0 || meta["path"] != base+path || (links["next"] != nil) != want.next {
			t.Errorf("%q: meta = %v, links = %v, want the total 23, the path, and a next link unless this is the last page", query, meta, links)
		}
	}
	for _, query := range []string{"?page=0", "?per_page=101", "?page=x", "?status=failed", "?page=1&page=2", "?page=101&per_page=100", "?%zz"} {
		for _, path := range []string{path, "/business/batches"} {
			if a := v.get(path + query); a.Status != http.StatusUnprocessableEntity {
				t.Errorf("%s%s: status = %d, want 422", path, query, a.Status)
			}
		}
	}
	if a := v.get("/business/batches?page=101&per_page=100"); !strings.Contains(a.problem(t).Message, "cursor=") {
		t.Errorf("the message for a page that is too deep has no cursor: %s", a.Body)
	}
	walked := v.walk(path+"?per_page=10", func(data any) []any { return data.(map[string]any)["entries"].([]any) })
	if len(walked) != 23 {
		t.Errorf("the list by cursor has %d entries, want 23", len(walked))
	}
	for i, e := range walked {
		if e.(map[string]any)["index"] != float64(i*3) {
			t.Errorf("in the list by cursor, entry %d is %v, want the index %d", i, e, i*3)
		}
	}
	for _, wrong := range []string{unknownID, "x", strings.ToUpper(unknownID) + "0", "%7B" + id + "%7D"} {
		if a := v.get("/business/batches/" + wrong + "?page=0"); a.Status != http.StatusNotFound || a.problem(t).Message != "No such batch." {
			t.Errorf("the batch %s: status = %d, want 404; body %s", wrong, a.Status, a.Body)
		}
	}
	if a := v.get("/business/batches/" + strings.ToUpper(id)); a.Status != http.StatusOK {
		t.Errorf("the id in upper case: status = %d, want 200", a.Status)
	}
}

func TestBatchesPerInstitution(t *testing.T) {
	t.Parallel()
	dbtest.Each(t, func(t *testing.T, d *db.DB) {
		v := newVault(t, d, 0)
		file := v.stage("diploma.pdf")
		var ids []string
		for i := range 3 {
			ids = append(ids, v.accept(v.postBulk(multipartType, multipartOf(t, entry(i, file))), 1))
		}
		allPermissions := v.secret
		v.secret = v.token(v.institution("OTH"), nil, token.All...)
		for _, id := range ids {
			if a := v.get("/business/batches/" + id); a.Status != http.StatusNotFound {
				t.Errorf("a batch of another institution: status = %d, want 404", a.Status)
			}
		}
		if a := v.get("/business/batches"); len(a.json(t)["data"].([]any)) != 0 || a.json(t)["meta"].(map[string]any)["total"] != 0.0 {
			t.Errorf("the list of the other institution is not empty: %s", a.Body)
		}
		for what, secret := range map[string]string{
			"all permissions": allPermissions, "batch:list": v.token(v.inst, nil, token.BatchList), "certificate-vault:list": v.token(v.inst, nil, token.VaultList),
		} {
			v.secret = secret
			a := v.get("/business/batches?per_page=2")
			body := a.json(t)
			list, _ := body["data"].([]any)
			if a.Status != http.StatusOK || len(list) != 2 || list[0].(map[string]any)["id"] != ids[2] || list[1].(map[string]any)["id"] != ids[1] {
				t.Fatalf("the list with %s: status = %d, want 200 with the two newest batches; body %s", what, a.Status, a.Body)
			}
			checkBatch(t, list[0].(map[string]any), ids[2], "processing", map[string]float64{"processing": 1})
			links := body["links"].(map[string]any)
			if next := fmt.Sprint(links["next"]); !strings.HasPrefix(next, base+"/business/batches?") || !strings.Contains(next, "page=2") {
				t.Errorf("the links are %v, want a next link to page 2", links)
			}
		}
		v.secret = allPermissions
		for _, size := range []string{"1", "2", "3"} {
			var got []string
			for _, b := range v.walk("/business/batches?per_page="+size, func(data any) []any { return data.([]any) }) {
				got = append(got, b.(map[string]any)["id"].(string))
			}
			if !slices.Equal(got, []string{ids[2], ids[1], ids[0]}) {
				t.Errorf("the list by cursor with %s batches per page is %v, want all three, newest first", size, got)
			}
		}
		// A cursor is valid only for the list that returned it.
		cursor := v.get("/business/batches?per_page=1&cursor=").json(t)["meta"].(map[string]any)["next_cursor"].(string)
		for name, get := range map[string]func() *response{
			"the list of entries":      func() *response { return v.get("/business/batches/" + ids[0] + "?cursor=" + cursor) },
			"the list of certificates": func() *response { return v.get("/business/certificates?cursor=" + cursor) },
			"the list of another institution": func() *response {
				v.secret = v.token(v.institution("ANO"), nil, token.All...)
				return v.get("/business/batches?cursor=" + cursor)
			},
			"the list of one source": func() *response {
				v.secret = v.token(v.inst, nil, token.VaultList)
				return v.get("/business/batches?cursor=" + cursor)
			},
			"a page and a cursor": func() *response { return v.get("/business/batches?page=1&cursor=" + cursor) },
			"an invalid cursor":   func() *response { return v.get("/business/batches?cursor=x") },
		} {
			v.secret = allPermissions
			if a := get(); a.Status != http.StatusUnprocessableEntity {
				t.Errorf("%s: status = %d, want 422; body %s", name, a.Status, a.Body)
			}
		}
		// A token with only the permissions for vault certificates cannot read batches of another
		// source.
		v.exec(`UPDATE batches SET source = 'template' WHERE uuid = $1`, ids[2])
		v.secret = v.token(v.inst, nil, token.VaultList, token.VaultView)
		if a := v.get("/business/batches"); len(a.json(t)["data"].([]any)) != 2 {
			t.Errorf("the list is %s, want only the two batches of vault certificates", a.Body)
		}
		if a := v.get("/business/batches/" + ids[2]); a.Status != http.StatusNotFound {
			t.Errorf("a batch of another source: status = %d, want 404", a.Status)
		}
		v.secret = v.token(v.inst, nil, token.BatchList, token.BatchView)
		if a := v.get("/business/batches/" + ids[2]); a.Status != http.StatusOK {
			t.Errorf("a batch of another source with batch:view: status = %d, want 200", a.Status)
		}
	})
}
