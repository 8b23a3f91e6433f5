package client

import (
	"context"
	"errors"
	"iter"
	"maps"
	"net/http"
	"net/url"
	"strconv"
)

// perPage is the page size of iterators. It is the maximum that the vault allows.
const perPage = 100

// Page is one page of a list.
type Page[T any] struct {
	Data []*T `json:"data"`
	Meta Meta `json:"meta"`
	// Links.Next is nil on the last page.
	Links Links `json:"links"`
}

// Links are the links to other pages of a list.
type Links struct {
	Next *string `json:"next"`
}

// Meta describes the position of a page in its list. A field is nil if the list has no such value, or if
// the page was requested by cursor and the field does not apply.
type Meta struct {
	CurrentPage  *int    `json:"current_page"`
	From         *int    `json:"from"`
	To           *int    `json:"to"`
	LastPage     *int    `json:"last_page"`
	PerPage      int     `json:"per_page"`
	Total        *int    `json:"total"`
	TotalAtLeast *int    `json:"total_at_least"`
	NextCursor   *string `json:"next_cursor"`
}

// numbered returns one page by its number.
func numbered[T any](ctx context.Context, c *Client, path string, q url.Values, number, perPage int) (*Page[T], error) {
	q.Set("page", strconv.Itoa(number))
	q.Set("per_page", strconv.Itoa(perPage))
	p := &Page[T]{}
	if err := c.do(ctx, &call{method: http.MethodGet, path: path, query: q}, p); err != nil {
		return nil, err
	}
	return p, nil
}

// every iterates over a list by cursor, so that records added meanwhile cause no repetition or gap.
func every[T any](ctx context.Context, c *Client, path string, q url.Values) iter.Seq2[*T, error] {
	return walk(ctx, c, path, q, func(data []*T) []*T { return data })
}

// walk iterates over a list by cursor. The function records returns the records in the data of a
// response.
func walk[D, T any](ctx context.Context, c *Client, path string, q url.Values, records func(data D) []*T) iter.Seq2[*T, error] {
	return func(yield func(*T, error) bool) {
		q := maps.Clone(q)
		q.Set("per_page", strconv.Itoa(perPage))
		q.Set("cursor", "")
		for {
			var p struct {
				Data  D     `json:"data"`
				Meta  Meta  `json:"meta"`
				Links Links `json:"links"`
			}
			if err := c.do(ctx, &call{method: http.MethodGet, path: path, query: q}, &p); err != nil {
				yield(nil, err)
				return
			}
			for _, item := range records(p.Data) {
				if !yield(item, nil) {
					return
				}
			}
			next, err := nextCursor(p.Meta, p.Links.Next, q.Get("cursor"))
			if err != nil {
				yield(nil, err)
				return
			}
			if next == "" {
				return
			}
			q.Set("cursor", next)
		}
	}
}

// nextCursor returns the cursor of the next page, or "" after the last page. now is the cursor of the
// current page. It is an error if there is a next page without a cursor or with the cursor now.
func nextCursor(m Meta, link *string, now string) (string, error) {
	switch {
	case m.NextCursor == nil && link == nil:
		return "", nil
	case m.NextCursor == nil || *m.NextCursor == "" || *m.NextCursor == now:
		return "", errors.New("the list has no valid cursor for its next page")
	default:
		return *m.NextCursor, nil
	}
}
