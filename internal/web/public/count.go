package public

import (
	"net/http"
	"slices"
	"strings"
)

// programs are texts, in lower case, in the User-Agent of crawlers, of services that draw previews of
// links, and of monitoring. Requests of such programs are not verifications. Matching a regular
// expression would take longer than rendering the page.
var programs = []string{
	"bot", "crawl", "spider", "slurp", "scrape", "archiver", "preview", "facebookexternalhit", "facebookcatalog", "embedly", "skypeuri", "vkshare", "w3c_validator",
	"lighthouse", "pagespeed", "ptst/", "headlesschrome", "feedfetcher", "mediapartners", "googleother", "inspectiontool", "safebrowsing", "virustotal", "zgrab",
	"monitor", "uptime", "pingdom", "statuscake", "site24x7", "nagios", "check_http", "zabbix", "datadog", "newrelic", "kube-probe", "blackbox", "prometheus",
	"healthcheck", "health-check",
}

// messenger is the beginning of the User-Agent of a messenger that draws previews of links. The browser
// that opens such a link has another User-Agent.
const messenger = "whatsapp/"

// phone is the name of a brand of phones that contains the word bot.
const phone = "cubot"

// prefetchHeaders are the headers with which a browser announces that it loads a page in advance, or
// for a preview.
var prefetchHeaders = []string{"Sec-Purpose", "Purpose", "X-Purpose", "X-Moz"}

// isVerification reports whether a request comes from a person or from a program that verifies a
// certificate. HEAD requests, pages loaded in advance, and programs that identify themselves as
// crawlers or as monitoring are not verifications.
func isVerification(r *http.Request) bool {
	if r.Method != http.MethodGet {
		return false
	}
	for _, name := range prefetchHeaders {
		switch value := strings.ToLower(r.Header.Get(name)); {
		case strings.Contains(value, "prefetch"), strings.Contains(value, "prerender"), strings.Contains(value, "preview"):
			return false
		}
	}
	agent := strings.ReplaceAll(strings.ToLower(r.UserAgent()), phone, "")
	return !strings.HasPrefix(agent, messenger) && !slices.ContainsFunc(programs, func(part string) bool { return strings.Contains(agent, part) })
}

// count counts a request as a verification of the certificates in its response. It does not count a
// certificate in processing, which is not public yet and whose page reloads itself, a certificate whose
// files were deleted, or a certificate of an institution of which the visitor is a member.
func (p *Pages) count(r *http.Request, list ...*verification) {
	if p.Verified == nil || !isVerification(r) {
		return
	}
	for _, v := range list {
		if v == nil || v.Status == processing || v.certificate.FilesDeletedAt != nil {
			continue
		}
		if p.IsMember != nil && p.IsMember(r, v.certificate.InstitutionID) {
			continue
		}
		p.Verified(v.certificate.ID)
	}
}
