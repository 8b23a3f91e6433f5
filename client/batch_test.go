package client

import (
	"bytes"
	"fmt"
	"io"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"
)

func TestBatch(t *testing.T) {
	t.Parallel()
	states := []string{"processing", "processing", "completed_with_errors"}
	polls := 0
	s := newStub(t, func(w http.ResponseWriter, r *seen, _ int) {
		switch {
		case r.Method == http.MethodPost:
			r.Body = io.NopCloser(bytes.NewReader(r.body))
			if err := r.ParseMultipartForm(1 << 20); err != nil {
				t.Error(err)
			}
			f := r.MultipartForm.Value
			if f["entries[7][full_name]"][0] != "Ada" || f["entries[999999][file_id]"][0] != "f2" || f["entries[7][details]"] != nil || len(f) != 9 {
				t.Errorf("form = %v, want the 9 fields with values of the entries 7 and 999999", f)
			}
			respond(w, 202, `{"message": "ok", "data": {"batch_id": "b", "total": 2, "status": "processing"}}`)
		case r.URL.Query().Get("per_page") == "1":
			respond(w, 200, fmt.Sprintf(`{"data": {"id": "b", "status": %q, "total": 2, "processing": %d, "entries": []}, "links": {"next": null}}`, states[polls], 2-polls))
			polls++
		case r.URL.Query().Get("per_page") == "100" && r.URL.Query().Has("cursor") && r.URL.Query().Get("cursor") == "":
			respond(w, 200, `{"data": {"entries": [{"index": 7, "status": "approved", "uuid": "u", "reference_id": "NWU-1", "error": null}]}, "links": {"next": "x"}, "meta": {"next_cursor": "on"}}`)
		case r.URL.Query().Get("cursor") == "on":
			respond(w, 200, `{"data": {"entries": [{"index": 999999, "status": "rejected", "uuid": null, "reference_id": null, "error": "The certificate already exists."}]}, "links": {"next": null}, "meta": {"next_cursor": null}}`)
		default:
			t.Errorf("unexpected request for %s", r.URL)
		}
	})
	accepted, err := s.client.SubmitBatch(t.Context(), []Entry{
		{Index: 7, CertificateTitle: "BSc", FullName: "Ada", ApplicantEmail: "ada@example.org", FileID: "f1"},
		{Index: 999999, CertificateTitle: "BSc", FullName: "Grace", ApplicantEmail: "grace@example.org", FileID: "f2", IssueDate: "2026-06-30"},
	})
	if err != nil || accepted.BatchID != "b" || accepted.Total != 2 {
		t.Fatalf("SubmitBatch = %+v, %v, want batch b with 2 entries", accepted, err)
	}
	var processing []int
	done, err := s.client.AwaitBatch(t.Context(), "b", func(b *Batch) { processing = append(processing, b.Processing) })
	if err != nil || done.Status != BatchCompletedWithErrors || !slices.Equal(processing, []int{2, 1, 0}) || !slices.Equal(s.waits, []time.Duration{awaitFirst, 2 * awaitFirst}) {
		t.Errorf("AwaitBatch = %+v, %v; reported %v, waited %v; want completed_with_errors, the reports [2 1 0] and two waits, the second twice as long", done, err, processing, s.waits)
	}
	var got []string
	for e, err := range s.client.BatchEntries(t.Context(), "b") {
		s.must(err)
		got = append(got, fmt.Sprintf("%d %s", e.Index, e.Status))
	}
	if strings.Join(got, ", ") != "7 approved, 999999 rejected" {
		t.Errorf("entries = %v, want 7 approved and 999999 rejected", got)
	}
}
