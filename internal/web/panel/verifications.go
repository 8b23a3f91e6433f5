package panel

import (
	"fmt"
	"html/template"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/certvault/certvault/internal/account"
	"github.com/certvault/certvault/internal/cert"
	"github.com/certvault/certvault/internal/sheet"
	"github.com/certvault/certvault/internal/verification"
	"github.com/certvault/certvault/internal/web/page"
)

const (
	// topVerified is the maximum number of certificates on the page.
	topVerified = 50
	// verifiedBatch is the number of certificates that verificationCertificates reads at a time.
	verifiedBatch = 500
)

// verificationRoutes returns the routes for the numbers of verifications.
func (p *Panel) verificationRoutes() []route {
	return []route{
		{pattern: "GET /panel/{institution}/verifications", may: account.MayView, handler: p.verifications},
		{pattern: "GET /panel/{institution}/verifications/days.csv", may: account.MayView, handler: p.verificationDays},
		{pattern: "GET /panel/{institution}/verifications/certificates.csv", may: account.MayView, handler: p.verificationCertificates},
	}
}

// verificationsPage is the data of the page with the numbers of verifications of an institution.
type verificationsPage struct {
	Visit *Visit
	Days  []verification.Day
	// Highest is the number at the upper edge of the chart. Sum is the number of verifications on all days.
	Highest, Sum int
	Top          []verifiedRow
	// HidesNames reports whether the institution hides the names of its recipients. Certificates with
	// small numbers are then not listed.
	HidesNames bool
}

// verifiedRow is a certificate on the page. N is the number of its verifications in the period. Total is
// the number of all its verifications, or nil if the page must not show it.
type verifiedRow struct {
	C     *cert.Certificate
	N     int
	Total *int
}

// Periods returns the periods that can be chosen, in days.
func (*verificationsPage) Periods() []int { return periods }

// Period returns the length of the chosen period in days.
func (v *verificationsPage) Period() int { return len(v.Days) }

// Middle returns the number at half the height of the chart.
func (v *verificationsPage) Middle() int { return v.Highest / 2 }

// First returns the first day of the chart.
func (v *verificationsPage) First() time.Time { return v.Days[0].Date }

// Half returns the day in the middle of the chart.
func (v *verificationsPage) Half() time.Time { return v.Days[len(v.Days)/2].Date }

// Last returns the last day of the chart.
func (v *verificationsPage) Last() time.Time { return v.Days[len(v.Days)-1].Date }

// Latest returns the days with verifications, the latest first.
func (v *verificationsPage) Latest() []verification.Day {
	list := slices.DeleteFunc(slices.Clone(v.Days), func(d verification.Day) bool { return d.N == 0 })
	slices.Reverse(list)
	return list
}

// Draw returns the chart as SVG, with a bar for each day with verifications. The page also has a summary
// and a table, for people who cannot see the chart.
func (v *verificationsPage) Draw(g *page.Page) (template.HTML, error) {
	var b strings.Builder
	fmt.Fprintf(&b, `<svg class="bars" viewBox="0 0 %g %g" preserveAspectRatio="none" role="img" aria-labelledby="chart-says">`, chartWidth, chartHeight)
	for _, y := range []float64{0.5, chartHeight / 2, chartHeight - 0.5} {
		fmt.Fprintf(&b, `<path class="rule" d="M0 %gH%g"/>`, y, chartWidth)
	}
	slot := chartWidth / float64(len(v.Days))
	for i, d := range v.Days {
		if d.N == 0 {
			continue
		}
		label, err := g.Message("verifications.bar", "date", g.Language.Date(d.Date), "n", g.Language.Number(d.N))
		if err != nil {
			return "", err
		}
		height := max(2, chartHeight*float64(d.N)/float64(v.Highest))
		fmt.Fprintf(&b, `<g><title>%s</title><rect class="room" x="%.2f" width="%.2f" height="%g"/><rect class="approved" x="%.2f" y="%.2f" width="%.2f" height="%.2f"/></g>`,
			template.HTMLEscapeString(label), float64(i)*slot, slot, chartHeight, float64(i)*slot+slot*gap/2, chartHeight-height, slot*(1-gap), height)
	}
	b.WriteString(`</svg>`)
	return template.HTML(b.String()), nil //nolint:gosec // the texts are escaped
}

// periodOf returns the period that a request selects, in days. The default is the first of periods.
func periodOf(r *http.Request) int {
	days, err := strconv.Atoi(r.URL.Query().Get("days"))
	if err != nil || !slices.Contains(periods, days) {
		return periods[0]
	}
	return days
}

// verifications shows the numbers of verifications by day and by certificate.
func (p *Panel) verifications(w http.ResponseWriter, r *http.Request, v *Visit) error {
	ctx, id, days := r.Context(), v.Institution().ID, periodOf(r)
	data := &verificationsPage{Visit: v}
	profile, err := p.Accounts.PublicProfile(ctx, id)
	if err != nil {
		return err
	}
	data.HidesNames = profile.HideName
	if data.Days, err = p.Verifications.Days(ctx, id, days); err != nil {
		return err
	}
	highest := 0
	for _, d := range data.Days {
		data.Sum += d.N
		highest = max(highest, d.N)
	}
	data.Highest = roundUp(highest)
	top, err := p.Verifications.Top(ctx, id, days, topVerified)
	if err != nil {
		return err
	}
	ids := make([]int64, len(top))
	for i, t := range top {
		ids[i] = t.CertificateID
	}
	list, err := p.Certs.ByIDs(ctx, ids)
	if err != nil {
		return err
	}
	totals, err := p.Verifications.Shown(ctx, nil, id, ids...)
	if err != nil {
		return err
	}
	for _, c := range list {
		data.Top = append(data.Top, verifiedRow{C: c, N: top[slices.Index(ids, c.ID)].N, Total: totals[c.ID].Total})
	}
	return p.draw(w, r, "verifications.html", data)
}

// verificationDays sends the numbers of verifications in the last verification.MaxDays days, by day, as a
// CSV file.
func (p *Panel) verificationDays(w http.ResponseWriter, r *http.Request, v *Visit) error {
	days, err := p.Verifications.Days(r.Context(), v.Institution().ID, verification.MaxDays)
	if err != nil {
		return err
	}
	if err := download(w, "text/csv; charset=utf-8", "verifications-by-day.csv"); err != nil {
		return err
	}
	out := sheet.NewWriter(w)
	err = out.Write("Date", "Verifications")
	for _, d := range days {
		if err == nil {
			err = out.Write(d.Date.Format(time.DateOnly), strconv.Itoa(d.N))
		}
	}
	if err == nil {
		err = out.Flush()
	}
	return p.finishStream(r, err)
}

// verificationCertificates sends the numbers of verifications by certificate as a CSV file. If the
// institution hides the names of its recipients, the file omits certificates with small numbers.
func (p *Panel) verificationCertificates(w http.ResponseWriter, r *http.Request, v *Visit) error {
	ctx, id := r.Context(), v.Institution().ID
	out := sheet.NewWriter(w)
	begun := false
	// The response begins after the first certificates were read. An earlier error becomes an error page.
	begin := func() error {
		if begun {
			return nil
		}
		if err := download(w, "text/csv; charset=utf-8", "verifications-by-certificate.csv"); err != nil {
			return err
		}
		begun = true
		return out.Write("Reference id", "Certificate title", "Full name", "Verifications", "Last 30 days")
	}
	err := p.Verifications.Each(ctx, id, verifiedBatch, func(ids []int64) error {
		list, err := p.Certs.ByIDs(ctx, ids)
		if err != nil {
			return err
		}
		counts, err := p.Verifications.Shown(ctx, nil, id, ids...)
		if err != nil {
			return err
		}
		if err := begin(); err != nil {
			return err
		}
		for _, c := range list {
			n := counts[c.ID]
			if err := out.Write(c.ReferenceID, c.Title, c.FullName, cell(n.Total), cell(n.Recent)); err != nil {
				return err
			}
		}
		return nil
	})
	if err == nil {
		err = begin()
	}
	if !begun {
		return err
	}
	if err == nil {
		err = out.Flush()
	}
	return p.finishStream(r, err)
}

// cell returns a number for a CSV file, or "" for nil.
func cell(n *int) string {
	if n == nil {
		return ""
	}
	return strconv.Itoa(*n)
}
