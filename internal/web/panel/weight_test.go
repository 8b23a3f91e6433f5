package panel

import (
	"bytes"
	"compress/gzip"
	"fmt"
	"net/http"
	"net/http/httptest"
	"regexp"
	"testing"

	"github.com/certvault/certvault/internal/db/dbtest"
)

// maxWeight is the maximum compressed size of a page of the panel and its assets, in bytes.
const maxWeight = 60 << 10

var asset = regexp.MustCompile(`(?:href|src)="(/assets/[^"]+\.(?:css|js|svg))"`)

// A list with the largest number of rows and most of the columns is not larger than maxWeight.
func TestWeightOfTheList(t *testing.T) {
	t.Parallel()
	if testing.Short() {
		t.Skip("the test has nothing concurrent for the race detector; make test/long runs it")
	}
	o := newPanelTest(t, dbtest.SQLite(t))
	most := rowChoices[len(rowChoices)-1]
	for i := range most {
		o.upload(o.inst, fmt.Sprintf("Person %x Number %d", i*7919, i), "a.pdf")
	}
	o.processAll()
	w := o.get("owner", o.pathOf(fmt.Sprintf("certificates?layout=1&rows=%d&columns=title&columns=reference&columns=email&columns=mail&columns=issued&columns=added&columns=batch", most)))
	w = o.followRedirect(t, "owner", w, o.pathOf("certificates"))
	page := w.Body.Bytes()
	if n := bytes.Count(page, []byte(`name="selected"`)); n != most {
		t.Fatalf("the list has %d rows, want %d", n, most)
	}
	total := o.weight(t, page)
	if total > maxWeight {
		t.Errorf("the list and its assets have %d compressed bytes, want at most %d", total, maxWeight)
	}
	t.Logf("page: %d bytes, compressed %d bytes, with its assets %d bytes", len(page), compressed(t, page), total)
}

// weight returns the compressed size of a page and its assets, in bytes.
func (o *panelTest) weight(t *testing.T, page []byte) int {
	t.Helper()
	total := compressed(t, page)
	assets := o.panel.Site.Assets(func(http.ResponseWriter, *http.Request, error) {})
	seen := map[string]bool{}
	for _, match := range asset.FindAllSubmatch(page, -1) {
		address := string(match[1])
		if seen[address] {
			continue
		}
		seen[address] = true
		answer := httptest.NewRecorder()
		assets.ServeHTTP(answer, httptest.NewRequestWithContext(t.Context(), http.MethodGet, address, nil))
		if answer.Code != http.StatusOK {
			t.Fatalf("%s: status = %d, want 200", address, answer.Code)
		}
		total += compressed(t, answer.Body.Bytes())
	}
	if len(seen) < 4 {
		t.Fatalf("the page has %d assets, want at least 4", len(seen))
	}
	return total
}

func compressed(t *testing.T, content []byte) int {
	t.Helper()
	var b bytes.Buffer
	z := gzip.NewWriter(&b)
	if _, err := z.Write(content); err != nil {
		t.Fatal(err)
	}
	if err := z.Close(); err != nil {
		t.Fatal(err)
	}
	return b.Len()
}
