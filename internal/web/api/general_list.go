package api

import (
	"maps"
	"net/http"
	"slices"
	"strconv"

	"github.com/certvault/certvault/internal/cert"
	"github.com/certvault/certvault/internal/search"
	"github.com/certvault/certvault/internal/token"
	"github.com/certvault/certvault/internal/web"
)

// generalParameters are the filter and sort parameters of the general list of certificates. generalList adds
// the parameter source.
var generalParameters = map[string]parameter{
	"search": func(f *search.Filter, value string) string { f.Search = value; return "" },
	"status": func(f *search.Filter, value string) string {
		i := slices.IndexFunc(generalStatuses, func(g generalStatus) bool { return g.Value == value })
		if i < 0 {
			return oneOf(generalValues(), value)
		}
		f.Statuses = generalStatuses[i].of
		return ""
	},
	"issue_date_from":   func(f *search.Filter, value string) string { f.IssuedFrom = value; return "" },
	"issue_date_to":     func(f *search.Filter, value string) string { f.IssuedTo = value; return "" },
	"generated_at_from": func(f *search.Filter, value string) string { f.GeneratedFrom = value; return "" },
	"generated_at_to":   func(f *search.Filter, value string) string { f.GeneratedTo = value; return "" },
	"batch_id":          func(f *search.Filter, value string) string { f.BatchID = value; return "" },
	"customer_id": func(f *search.Filter, value string) string {
		id, err := strconv.ParseInt(value, 10, 64)
		if err != nil || id < 1 {
			return "The customer id must be a positive whole number."
		}
		f.CustomerID = id
		return ""
	},
	"sort_field": func(f *search.Filter, value string) string {
		f.Sort = search.Sort(value)
		return oneOf(search.Sorts, f.Sort)
	},
	"sort_order": func(f *search.Filter, value string) string {
		f.Ascending = value == "asc"
		return oneOf([]string{"asc", "desc"}, value)
	},
	"expired":      filterExpired,
	"expires_from": func(f *search.Filter, value string) string { f.ExpiresFrom = value; return "" },
	"expires_to":   func(f *search.Filter, value string) string { f.ExpiresTo = value; return "" },
	"replaced":     filterReplaced,
}

func generalValues() []string {
	values := make([]string, len(generalStatuses))
	for i, g := range generalStatuses {
		values[i] = g.Value
	}
	return values
}

// generalSource returns the parameter that selects one of the sources that a token may list.
func generalSource(sources []cert.Source) parameter {
	return func(f *search.Filter, value string) string {
		f.Sources = []cert.Source{cert.Source(value)}
		return oneOf(sources, cert.Source(value))
	}
}

func (a *API) generalList(w http.ResponseWriter, c *call) error {
	base, sources := search.Filter{}, cert.Sources
	if !c.token.Has(token.CertificateList) {
		sources = []cert.Source{cert.Vault}
		base.Sources = sources
	}
	parameters := maps.Clone(generalParameters)
	parameters["source"] = generalSource(sources)
	for _, g := range generalStatuses {
		base.StatusOrder = append(base.StatusOrder, g.of...)
	}
	filter, query, err := readFilter(c, parameters, base)
	if err != nil {
		return err
	}
	list, err := a.Search.List(a.Replica.Allow(c.Context()), c.institution.ID, filter)
	if err != nil {
		return err
	}
	data, err := a.wireGeneral(c, list.Items)
	if err != nil {
		return err
	}
	return web.WriteJSON(w, http.StatusOK, paged(a.Links.To(c.URL.Path), query, filter.Range, list.Part, len(data), data))
}
