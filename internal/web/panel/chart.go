package panel

import (
	"fmt"
	"html/template"
	"strings"
	"time"

	"github.com/certvault/certvault/internal/search"
	"github.com/certvault/certvault/internal/web/page"
)

const (
	// chartWidth and chartHeight are the size of the chart in its own units. The page scales the
	// chart.
	chartWidth, chartHeight = 1000.0, 200.0
	// weekly is the maximum number of days for which each bar represents one day. For more days,
	// each bar represents a week.
	weekly = 120
	// gap is the fraction of a bar's slot that stays empty.
	gap = 0.28
)

// chart is the data of a chart and of a table. The chart shows the numbers of approved and failed
// certificates over time. The table also contains the numbers of created and revoked certificates.
type chart struct {
	Days int
	// Weeks reports whether each row is a week instead of a day.
	Weeks bool
	Rows  []chartRow
	// Top is the number at the upper edge of the chart.
	Top int
	// Sum is the total of all rows.
	Sum chartRow
}

// chartRow contains the numbers of one day or one week. From is the first day of the row.
type chartRow struct {
	From                               time.Time
	Created, Approved, Failed, Revoked int
}

func (r *chartRow) add(d search.Day) {
	r.Created += d.Created
	r.Approved += d.Approved
	r.Failed += d.Failed
	r.Revoked += d.Revoked
}

// Any reports whether a number of the row is not zero.
func (r *chartRow) Any() bool { return r.Created+r.Approved+r.Failed+r.Revoked > 0 }

// newChart groups days into rows. There must be at least one day. If the rows are weeks, the last
// week ends today, and the first row may have fewer than 7 days.
func newChart(days []search.Day) *chart {
	c := &chart{Days: len(days), Weeks: len(days) > weekly}
	span := 1
	if c.Weeks {
		span = 7
	}
	first := len(days) % span
	highest := 0
	for i, d := range days {
		if i == 0 || (i-first)%span == 0 {
			c.Rows = append(c.Rows, chartRow{From: d.Date})
		}
		row := &c.Rows[len(c.Rows)-1]
		row.add(d)
		c.Sum.add(d)
		highest = max(highest, row.Approved+row.Failed)
	}
	c.Top = roundUp(highest)
	return c
}

// roundUp returns the smallest even number that is at least n, at least 4, and 1, 2, 4 or 5 times a
// power of ten.
func roundUp(n int) int {
	step := 1
	for {
		for _, factor := range []int{1, 2, 4, 5, 10} {
			if top := factor * step; top >= n && top >= 4 && top%2 == 0 {
				return top
			}
		}
		step *= 10
	}
}

// Middle returns the number at half the height of the chart.
func (c *chart) Middle() int { return c.Top / 2 }

// First returns the first day of the first row.
func (c *chart) First() time.Time { return c.Rows[0].From }

// Half returns the first day of the middle row.
func (c *chart) Half() time.Time { return c.Rows[len(c.Rows)/2].From }

// Last returns the first day of the last row.
func (c *chart) Last() time.Time { return c.Rows[len(c.Rows)-1].From }

// Description returns the totals and the row with the most approved certificates as text.
func (c *chart) Description(g *page.Page) (string, error) {
	best := &c.Rows[0]
	for i := range c.Rows {
		if c.Rows[i].Approved > best.Approved {
			best = &c.Rows[i]
		}
	}
	sum, err := g.Message("dashboard.summary", "n", c.Days, "approved", g.Language.Number(c.Sum.Approved), "failed", g.Language.Number(c.Sum.Failed))
	if err != nil || best.Approved == 0 {
		return sum, err
	}
	key := "dashboard.peak_day"
	if c.Weeks {
		key = "dashboard.peak_week"
	}
	peak, err := g.Message(key, "n", g.Language.Number(best.Approved), "date", g.Language.Date(best.From))
	return sum + " " + peak, err
}

// Draw returns the chart as SVG. Each bar shows the approved certificates, with the failed
// certificates on top. The SVG has no inline style, because the Content-Security-Policy of the page does
// not allow inline styles. The bars of failed certificates have stripes, for people who cannot distinguish
// the colours.
func (c *chart) Draw(g *page.Page) (template.HTML, error) {
	key := "dashboard.bar_day"
	if c.Weeks {
		key = "dashboard.bar_week"
	}
	var b strings.Builder
	fmt.Fprintf(&b, `<svg class="bars" viewBox="0 0 %g %g" preserveAspectRatio="none" role="img" aria-labelledby="chart-says">`, chartWidth, chartHeight)
	b.WriteString(`<defs><pattern id="stripes" width="6" height="6" patternUnits="userSpaceOnUse" patternTransform="rotate(45)">` +
		`<rect class="failed" width="6" height="6"/><rect class="stripe" width="2.2" height="6"/></pattern></defs>`)
	for _, y := range []float64{0.5, chartHeight / 2, chartHeight - 0.5} {
		fmt.Fprintf(&b, `<path class="rule" d="M0 %gH%g"/>`, y, chartWidth)
	}
	slot := chartWidth / float64(len(c.Rows))
	for i := range c.Rows {
		r := &c.Rows[i]
		if !r.Any() {
			continue
		}
		x, width := float64(i)*slot+slot*gap/2, slot*(1-gap)
		approved, failed := c.height(r.Approved), c.height(r.Failed)
		label, err := g.Message(key, "date", g.Language.Date(r.From), "approved", g.Language.Number(r.Approved), "failed", g.Language.Number(r.Failed))
		if err != nil {
			return "", err
		}
		fmt.Fprintf(&b, `<g><title>%s</title><rect class="room" x="%.2f" width="%.2f" height="%g"/>`,
			template.HTMLEscapeString(label), float64(i)*slot, slot, chartHeight)
		if approved > 0 {
			fmt.Fprintf(&b, `<rect class="approved" x="%.2f" y="%.2f" width="%.2f" height="%.2f"/>`, x, chartHeight-approved, width, approved)
		}
		if failed > 0 {
			fmt.Fprintf(&b, `<rect fill="url(#stripes)" x="%.2f" y="%.2f" width="%.2f" height="%.2f"/>`, x, chartHeight-approved-failed, width, failed)
		}
		b.WriteString(`</g>`)
	}
	b.WriteString(`</svg>`)
	return template.HTML(b.String()), nil //nolint:gosec // the texts are escaped
}

// height returns the height of a bar for n certificates. If n is not 0, the height is at least 2,
// so that the bar is visible.
func (c *chart) height(n int) float64 {
	if n == 0 {
		return 0
	}
	return max(2, chartHeight*float64(n)/float64(c.Top))
}
