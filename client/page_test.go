package client

import (
	"errors"
	"fmt"
	"net/http"
	"strconv"
	"strings"
	"testing"
)

func TestListsFollowTheCursor(t *testing.T) {
	t.Parallel()
	page := func(first, n int, next string) string {
		items := make([]string, n)
		for i := range items {
			items[i] = fmt.Sprintf(`{"id": %d}`, first+i)
		}
		link, cursor := "null", "null"
		if next != "" {
			link, cursor = `"https://elsewhere.example.org/next"`, strconv.Quote(next)
		}
		return fmt.Sprintf(`{"data": [%s], "links": {"next": %s}, "meta": {"per_page": 100, "total": null, "next_cursor": %s}}`, strings.Join(items, ","), link, cursor)
	}
	s := newStub(t, func(w http.ResponseWriter, r *seen, _ int) {
		q := r.URL.Query()
		if q.Get("per_page") != "100" || q.Get("status") != "failed" || q.Get("search") != "a&b" || !q.Has("cursor") || q.Has("page") {
			t.Errorf("query = %v, want per_page 100, the filter and a cursor, and no page number", q)
		}
		switch q.Get("cursor") {
		case "":
			respond(w, 200, page(0, 100, "one"))
		case "one":
			respond(w, 200, page(100, 0, "two")) // a page may be empty
		case "two":
			respond(w, 200, page(100, 20, ""))
		}
	})
	var ids []int64
	for c, err := range s.client.VaultCertificates(t.Context(), VaultFilter{Status: Failed, Search: "a&b"}) {
		s.must(err)
		ids = append(ids, c.ID)
	}
	if len(ids) != 120 || ids[0] != 0 || ids[119] != 119 || len(s.seen) != 3 {
		t.Errorf("%d records in %d requests, want 120 in 3", len(ids), len(s.seen))
	}
	for _, err := range s.client.VaultCertificates(t.Context(), VaultFilter{Status: Failed, Search: "a&b"}) {
		s.must(err)
		break
	}
	if len(s.seen) != 4 {
		t.Errorf("%d requests after the second loop, want 4", len(s.seen))
	}
	for name, body := range map[string]string{"a cursor that does not change": page(0, 1, "same"), "a next page without a cursor": strings.Replace(page(0, 1, "x"), `"next_cursor": "x"`, `"next_cursor": null`, 1)} {
		n, failed := 0, false
		s := newStub(t, func(w http.ResponseWriter, _ *seen, _ int) { respond(w, 200, body) })
		for _, err := range s.client.VaultCertificates(t.Context(), VaultFilter{}) {
			if n++; err != nil {
				failed = true
			}
			if n > 10 {
				break
			}
		}
		if !failed {
			t.Errorf("%s: no error in %d steps, want an error", name, n)
		}
	}
	refused := newStub(t, func(w http.ResponseWriter, _ *seen, _ int) {
		respond(w, 403, `{"message": "Forbidden - Insufficient permissions"}`)
	})
	for c, err := range refused.client.Certificates(t.Context(), CertificateFilter{}) {
		if c != nil || !errors.Is(err, ErrForbidden) {
			t.Errorf("the sequence yields %v, %v, want nil, ErrForbidden", c, err)
		}
	}
}

func TestFilterIsSent(t *testing.T) {
	t.Parallel()
	s := newStub(t, func(w http.ResponseWriter, _ *seen, _ int) {
		respond(w, 200, `{"data": [], "links": {"next": null}, "meta": {"total": 0}}`)
	})
	p, err := s.client.CertificatePage(t.Context(), CertificateFilter{
		Search: "x", Status: "generated", IssueDateFrom: "2026-01-01", IssueDateTo: "2026-02-01", GeneratedFrom: "2026-03-01", GeneratedTo: "2026-04-01",
		BatchID: "b", CustomerID: 7, SortField: "name", SortOrder: "asc",
	}, 2, 50)
	s.must(err)
	want := "/business/certificates?batch_id=b&customer_id=7&generated_at_from=2026-03-01&generated_at_to=2026-04-01&issue_date_from=2026-01-01&issue_date_to=2026-02-01&page=2&per_page=50&search=x&sort_field=name&sort_order=asc&status=generated"
	if got := s.seen[0].URL.String(); got != want || *p.Meta.Total != 0 {
		t.Errorf("URL = %s, total = %d, want %s and 0", got, *p.Meta.Total, want)
	}
}
