package api

import (
	"fmt"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/certvault/certvault/internal/db"
	"github.com/certvault/certvault/internal/db/dbtest"
	"github.com/certvault/certvault/internal/pdf/pdftest"
	"github.com/certvault/certvault/internal/vaulttest"
)

// recordNotify records the responses to requests with an invalid field notify.
func (r *recorder) recordNotify() {
	now := r.Now().UTC()
	for _, bad := range []struct{ name, value string }{
		{"a word", "later"}, {"a day", "2030-07-01"}, {"NUL", "\x00"}, {"the past", now.Add(-time.Second).Format(time.RFC3339)},
		{"too far", now.AddDate(1, 0, 1).Format(time.RFC3339)},
	} {
		r.record("notify: "+bad.name+", single", r.post(form(r.tb, append(r.validFields(), pdfFile(samplePDF(0)), text("notify", bad.value))...)))
		values := url.Values{"notify": {bad.value}, "entries[0][full_name]": {""}}
		r.record("notify: "+bad.name+", form", r.postBulk("application/x-www-form-urlencoded", []byte(values.Encode())))
		r.record("notify: "+bad.name+", JSON", r.postBulk("application/json", fmt.Appendf(nil, `{"notify": %s, "entries": [{}]}`, strings.ReplaceAll(strconv.Quote(bad.value), `\x`, `\u00`))))
	}
	r.record("notify: twice", r.postBulk("application/x-www-form-urlencoded", []byte("notify=now&notify=never")))
	r.record("notify: a number", r.postBulk("application/json", []byte(`{"notify": 5, "entries": [{}]}`)))
}

// The field notify applies to the mail about a single upload, or about all certificates of a batch.
func TestNotify(t *testing.T) {
	t.Parallel()
	dbtest.Each(t, func(t *testing.T, d *db.DB) {
		v := newVault(t, d, 0, vaulttest.DrawTemplates)
		at := v.Now().UTC().Add(time.Hour).Truncate(time.Second)
		entry := fmt.Sprintf(`{"certificate_title": "BSc", "full_name": "Ada Obi", "applicant_email": "ada@example.org", "file_id": %q}`, v.stage("a.pdf"))
		path := v.published() + "/issue"
		for _, tc := range []struct {
			name string
			send func(notify string) *response
		}{
			{"single", func(notify string) *response {
				return v.post(form(t, append(v.validFields(), pdfFile(samplePDF(0)), text("notify", notify))...))
			}},
			{"bulk as a form", func(notify string) *response {
				return v.postBulk("application/x-www-form-urlencoded", []byte(url.Values{
					"notify": {notify}, "entries[0][certificate_title]": {"BSc"}, "entries[0][full_name]": {"Ada Obi"}, "entries[0][applicant_email]": {"ada@example.org"},
					"entries[0][file_id]": {v.stage("b.pdf")},
				}.Encode()))
			}},
			{"bulk as JSON", func(notify string) *response {
				return v.postBulk("application/json", fmt.Appendf(nil, `{"entries": [%s], "notify": %q}`, entry, notify))
			}},
			{"from a template", func(notify string) *response {
				return v.issueWith("key-"+strings.ReplaceAll(notify, " ", ""), path, fmt.Sprintf(`{"notify": %q, "entries": [%s]}`, notify, issued("Grace "+notify, "A")))
			}},
		} {
			for notify, want := range map[string]string{
				"now": "none", "never": "never", at.Format(time.RFC3339): fmt.Sprint(at.UnixMicro()), at.In(time.FixedZone("", 7200)).Format(time.RFC3339): fmt.Sprint(at.UnixMicro()),
			} {
				v.exec(`DELETE FROM planned_notices`)
				v.exec(`DELETE FROM notice_plans`)
				v.exec(`UPDATE certificates SET title = title || '+'`)
				if a := tc.send(notify); a.Status >= 300 {
					t.Errorf("%s, notify %s: status = %d, want 2xx; body %s", tc.name, notify, a.Status, a.Body)
					continue
				}
				got := "none"
				if v.count(`SELECT count(*) FROM notice_plans`) == 1 {
					got = "never"
					if n := v.count(`SELECT coalesce(max(send_at), 0) FROM notice_plans`); n != 0 {
						got = fmt.Sprint(n)
					}
				}
				if got != want {
					t.Errorf("%s, notify %s: the plan is %s, want %s", tc.name, notify, got, want)
				}
			}
		}
		// Without the field notify, a replacement keeps the planned time of the mail about the old
		// certificate.
		for name, parts := range map[string][]part{"absent": nil, "now": {text("notify", "now")}} {
			old := data(t, v.post(form(t, append(v.validFields(), pdfFile(samplePDF(0)), text("notify", at.Format(time.RFC3339)))...)))
			a := v.replace(old["uuid"], "", append(parts, pdfFile(pdftest.Sized("another diploma", 0)))...)
			n := v.count(fmt.Sprintf(`SELECT count(*) FROM notice_plans WHERE send_at = %d AND certificate_id = (SELECT max(id) FROM certificates)`, at.UnixMicro()))
			if a.Status != http.StatusCreated || n == 1 != (name == "absent") {
				t.Errorf("a replacement, notify %s: status = %d with %d plans, want 201, with 1 plan if notify is absent and 0 otherwise; body %s", name, a.Status, n, a.Body)
			}
		}
	})
}
