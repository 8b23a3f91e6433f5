package public

import (
	"net/http"
	"slices"
	"strings"
)

// programs are parts, in lower case, of the User-Agent of crawlers, link previews and monitoring. Their
// requests are not verifications. A regular expression would be much slower than this list.
var programs = []string{
	"bot", "crawl", "spider", "slurp", "scrape", "archiver", "preview", "facebookexternalhit", "facebookcatalog", "embedly", "skypeuri", "vkshare", "w3c_validator",
	"lighthouse", "pagespeed", "ptst/", "headlesschrome", "feedfetcher", "mediapartners", "googleother", "inspectiontool", "safebrowsing", "virustotal", "zgrab",
	"monitor", "uptime", "pingdom", "statuscake", "site24x7", "nagios", "check_http", "zabbix", "datadog", "newrelic", "kube-probe", "blackbox", "prometheus",
	"healthcheck", "health-check",
}

// messenger is the beginning of the User-Agent with which a messenger loads the preview of a link. The
// browser that opens the link has another User-Agent.
const messenger = "whatsapp/"

// phone is a brand of phones. Its name contains "bot", which is in programs.
const phone = "cubot"

// prefetchHeaders are the headers with which a browser announces that it loads a page in advance or for
// a preview.
var prefetchHeaders = []string{"Sec-Purpose", "Purpose", "X-Purpose", "X-Moz"}

// isVerification reports whether a request is a verification. Requests with a method other than GET,
// requests that load a page in advance, and requests of known programs are not verifications.
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

// count counts a request as a verification of the certificates in its response. It does not count
// certificates in processing, which are not public yet and whose pages reload, or certificates whose files
// were deleted. It also does not count certificates of institutions of which the visitor is a member.
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
