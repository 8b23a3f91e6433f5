package bench

import (
	"fmt"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/certvault/certvault/test/vault"
)

// BenchmarkPanel requests pages of a large institution's panel from the built binary, as an owner.
func BenchmarkPanel(b *testing.B) {
	each(b, func(b *testing.B, database string) {
		n := large(b, database)
		// A second institution has an owner with a known password, who also becomes an owner of the large one.
		// Its prefix and name are new in each run, because an earlier run may have used the same database.
		prefix := "S" + strings.ToUpper(strconv.FormatInt(time.Now().Unix(), 36))
		small, err := n.vault.CreateInstitution(b.Context(), "Small College "+prefix, prefix)
		if err != nil {
			b.Fatal(err)
		}
		owner := "owner@" + strings.ToLower(small.Prefix) + ".example"
		res, err := vault.Run(b.Context(), n.vault.Options, "", "member", "add", "--institution", slug, "--email", owner, "--name", "Owner", "--role", "owner")
		if err != nil || res.Code != 0 {
			b.Fatalf("member add: exit code %d, %s%s, %v; want 0", res.Code, res.Stdout, res.Stderr, err)
		}
		if n.Session, err = n.vault.SignIn(b.Context(), owner, vault.OwnerPassword); err != nil {
			b.Fatal(err)
		}
		for _, p := range n.pages(b) {
			b.Run(p.name, func(b *testing.B) { n.open(b, p.path) })
		}
	})
}

type panelPage struct {
	name string
	path func() string
}

// pages returns the pages of the panel that the benchmark measures.
func (n *institution) pages(b *testing.B) []panelPage {
	b.Helper()
	at := "/panel/" + slug
	fixed := func(path string) func() string { return func() string { return at + path } }
	list := func(query func() string) func() string {
		return func() string { return at + "/certificates?" + query() }
	}
	uuids := n.uuids(b)
	return []panelPage{
		{"dashboard/30", fixed("")}, {"dashboard/365", fixed("?days=365")}, {"list", fixed("/certificates")},
		{"list/status", list(func() string {
			return "status=" + []string{"approved", "revoked", "failed", "processing"}[n.random.IntN(4)]
		})},
		{"list/failure", list(func() string { return "failure=no_room" })},
		{"list/batch", list(func() string { return "batch=" + n.pick(n.batches) })},
		{"list/email", list(func() string { return "email=" + n.pick(n.emails) })},
		{"list/name", list(func() string { return "sort=" + []string{"name", "name-desc"}[n.random.IntN(2)] })},
		{"list/issued", list(func() string { return "from=" + n.day(b, 2100).Format(time.DateOnly) })},
		{"list/search/name", list(func() string { return "q=" + n.pick(n.names) })},
		{"list/search/many", list(func() string { return "q=" + url.QueryEscape([]string{"smith", "diploma", "2021"}[n.random.IntN(3)]) })},
		{"certificate", func() string { return at + "/certificates/" + uuids[n.random.IntN(len(uuids))] }},
		{"settings", fixed("/settings")},
	}
}

// uuids returns the UUIDs of certificates from random pages of the list.
func (n *institution) uuids(b *testing.B) []string {
	b.Helper()
	var uuids []string
	for range 10 {
		for _, r := range n.list(b, fmt.Sprintf("%s?per_page=20&page=%d", generalPath, 1+n.random.IntN(min(n.total, 10_000)/20))).Data {
			uuids = append(uuids, fmt.Sprint(r.ID))
		}
	}
	return uuids
}

// open measures one page.
func (n *institution) open(b *testing.B, path func() string) {
	b.Helper()
	for b.Loop() {
		var took []time.Duration
		size := 0
		for i := range warmed + measured {
			target := path()
			began := time.Now()
			a, err := n.Get(b.Context(), target)
			if err != nil || a.Status != http.StatusOK {
				b.Fatalf("GET %s: response %+v, %v; want status 200", target, a, err)
			}
			if i >= warmed {
				took = append(took, time.Since(began))
				size = max(size, len(a.Body))
			}
		}
		b.ReportMetric(0, "ns/op") // hides the time of a series
		b.ReportMetric(millis(quantile(took, 0.50)), "p50-ms")
		b.ReportMetric(millis(quantile(took, 0.99)), "p99-ms")
		b.ReportMetric(float64(size), "bytes")
		b.ReportMetric(50, "promise-ms")
	}
}
