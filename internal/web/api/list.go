package api

import (
	"fmt"
	"maps"
	"net/http"
	"net/url"
	"slices"
	"strconv"

	"github.com/certvault/certvault/internal/cert"
	"github.com/certvault/certvault/internal/fault"
	"github.com/certvault/certvault/internal/web"
)

// page is the answer with a list.
type page struct {
	Data  any   `json:"data"`
	Links links `json:"links"`
	Meta  meta  `json:"meta"`
}

type links struct {
	First string  `json:"first"`
	Last  *string `json:"last"`
	Prev  *string `json:"prev"`
	Next  *string `json:"next"`
}

type meta struct {
	CurrentPage  *int    `json:"current_page"`
	From         *int    `json:"from"`
	LastPage     *int    `json:"last_page"`
	Path         string  `json:"path"`
	PerPage      int     `json:"per_page"`
	To           *int    `json:"to"`
	Total        *int    `json:"total"`
	TotalAtLeast *int    `json:"total_at_least,omitempty"`
	NextCursor   *string `json:"next_cursor"`
}

func (a *API) list(w http.ResponseWriter, c *call) error {
	query, err := url.ParseQuery(c.URL.RawQuery)
	if err != nil {
		return fault.Wrap(fault.Invalid, "The query string is malformed.", err)
	}
	filter, err := readFilter(query)
	if err != nil {
		return err
	}
	list, err := a.Certs.List(c.Context(), c.institution.ID, filter)
	if err != nil {
		return err
	}
	data := make([]*certificate, len(list.Items))
	for i, item := range list.Items {
		if data[i], err = a.wire(item, c.institution); err != nil {
			return err
		}
	}
	return web.WriteJSON(w, http.StatusOK, paged(a.Links.To(c.URL.Path), query, filter, list, len(data), data))
}

func readFilter(query url.Values) (cert.Filter, error) {
	var bad fault.Fields
	f := cert.Filter{Page: 1, PerPage: cert.DefaultPage}
	for _, name := range sortedKeys(query) {
		values := query[name]
		if len(values) > 1 {
			bad.Add(name, "The parameter is given more than once.")
			continue
		}
		switch value := values[0]; name {
		case "status":
			f.Status = cert.Status(value)
			if value != "" && !slices.Contains(cert.Statuses, f.Status) {
				bad.Add(name, fmt.Sprintf("The selected status is invalid; it must be one of %v.", cert.Statuses))
			}
		case "applicant_email":
			f.Email = value
		case "search":
			f.Search = value
		case "page":
			f.Page = number(&bad, name, value, cert.MaxDepth)
		case "per_page":
			f.PerPage = number(&bad, name, value, cert.MaxPage)
		default:
			bad.Add(name, "There is no such filter.")
		}
	}
	if bad.Len() == 0 && f.Page*f.PerPage > cert.MaxDepth {
		bad.Add("page", fmt.Sprintf("Pages reach the first %d records only.", cert.MaxDepth))
	}
	return f, bad.Err()
}

func sortedKeys(query url.Values) []string {
	keys := make([]string, 0, len(query))
	for k := range query {
		keys = append(keys, k)
	}
	slices.Sort(keys)
	return keys
}

func number(bad *fault.Fields, name, value string, limit int) int {
	n, err := strconv.Atoi(value)
	if err != nil || n < 1 || n > limit {
		bad.Add(name, fmt.Sprintf("The parameter must be a number from 1 to %d.", limit))
		return 1
	}
	return n
}

// paged puts a list, of which n are on this page, in its envelope.
func paged(path string, query url.Values, f cert.Filter, l *cert.List, n int, data any) page {
	to := func(n int) *string {
		q := maps.Clone(query)
		q.Set("page", strconv.Itoa(n))
		link := path + "?" + q.Encode()
		return &link
	}
	p := page{Data: data, Meta: meta{CurrentPage: &f.Page, Path: path, PerPage: f.PerPage, Total: l.Total}}
	p.Links.First = *to(1)
	if f.Page > 1 {
		p.Links.Prev = to(f.Page - 1)
	}
	if l.More {
		p.Links.Next = to(f.Page + 1)
	}
	if n > 0 {
		from := (f.Page-1)*f.PerPage + 1
		last := from + n - 1
		p.Meta.From, p.Meta.To = &from, &last
	}
	if l.Total != nil {
		last := max(1, (*l.Total+f.PerPage-1)/f.PerPage)
		p.Meta.LastPage, p.Links.Last = &last, to(last)
	} else {
		p.Meta.TotalAtLeast = &l.AtLeast
	}
	return p
}
