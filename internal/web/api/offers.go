package api

import (
	"net/http"
	"slices"

	"github.com/certvault/certvault/internal/application"
	"github.com/certvault/certvault/internal/fault"
	"github.com/certvault/certvault/internal/listing"
	"github.com/certvault/certvault/internal/web"
)

// offerRecord is the wire type of an offer.
type offerRecord struct {
	ID          string       `json:"id"`
	Slug        string       `json:"slug"`
	Name        string       `json:"name"`
	Description *string      `json:"description"`
	Criteria    *string      `json:"criteria"`
	Status      string       `json:"status"`
	TemplateID  *string      `json:"template_id"`
	Fields      []offerField `json:"fields"`
	FourEyes    bool         `json:"four_eyes"`
	HoldDays    int          `json:"hold_days"`
	MaxFiles    int          `json:"max_files"`
	// URL is the public page on which people apply.
	URL       string `json:"url"`
	CreatedAt string `json:"created_at"`
	UpdatedAt string `json:"updated_at"`
}

// offerField is a question of an offer. Column is the column of the template that the answer fills.
type offerField struct {
	Key      string   `json:"key"`
	Label    string   `json:"label"`
	Type     string   `json:"type"`
	Help     *string  `json:"help"`
	Required bool     `json:"required"`
	Choices  []string `json:"choices"`
	Column   *string  `json:"column"`
}

func (a *API) wireOffer(c *call, o *application.Offer) *offerRecord {
	out := &offerRecord{
		ID: o.UUID, Slug: o.Slug, Name: o.Name, Description: optional(o.Description), Criteria: optional(o.Criteria), Status: string(o.Status),
		TemplateID: optional(o.TemplateID), Fields: make([]offerField, len(o.Fields)), FourEyes: o.FourEyes, HoldDays: o.HoldDays, MaxFiles: o.MaxFiles,
		URL: a.Links.To("/apply/" + c.institution.Slug + "/" + o.Slug), CreatedAt: *web.Timestamp(&o.CreatedAt), UpdatedAt: *web.Timestamp(&o.UpdatedAt),
	}
	for i, f := range o.Fields {
		out.Fields[i] = offerField{
			Key: f.Key, Label: f.Label, Type: string(f.Type), Help: optional(f.Help), Required: f.Required,
			Choices: append([]string{}, f.Choices...), Column: optional(f.Column),
		}
	}
	return out
}

// offerFilter selects the offers of a list.
type offerFilter struct {
	listing.Range

	status application.OfferStatus
}

var offerStatuses = []application.OfferStatus{application.Draft, application.Open, application.Closed}

var offerParameters = map[string]filterParameter[offerFilter]{
	"status": func(f *offerFilter, value string) string {
		f.status = application.OfferStatus(value)
		return oneOf(offerStatuses, f.status)
	},
}

func (a *API) offers(w http.ResponseWriter, c *call) error {
	var f offerFilter
	query, err := readParameters(c, offerParameters, &f, &f.Range)
	if err != nil {
		return err
	}
	list, err := a.Applications.Offers(c.Context(), c.institution.ID, f.status)
	if err != nil {
		return err
	}
	items, part, err := a.offerPage(c, list, &f)
	if err != nil {
		return err
	}
	data := make([]*offerRecord, len(items))
	for i, o := range items {
		data[i] = a.wireOffer(c, o)
	}
	return web.WriteJSON(w, http.StatusOK, paged(a.Links.To(c.URL.Path), query, f.Range, part, len(data), data))
}

// offerPage returns the page of list that f selects. list has all offers of an institution with the
// status of f, the newest first. A cursor contains the id of the last offer of the previous page.
func (a *API) offerPage(c *call, list []*application.Offer, f *offerFilter) (items []*application.Offer, part listing.Part, err error) {
	var bad fault.Fields
	if f.Check(&bad); bad.Err() != nil {
		return nil, part, bad.Err()
	}
	of := []any{c.institution.ID, f.status}
	start := f.Offset()
	if f.HasPosition() {
		var last int64
		if err := a.OfferCursors.Open(of, *f.Cursor, &last); err != nil {
			return nil, part, err
		}
		if start = slices.IndexFunc(list, func(o *application.Offer) bool { return o.ID < last }); start < 0 {
			start = len(list)
		}
	}
	start = min(start, len(list))
	end := min(start+f.PerPage, len(list))
	items = list[start:end]
	if !f.HasCursor() {
		total := len(list)
		part.Total = &total
	}
	if part.More = end < len(list); part.More {
		part.Next, err = a.OfferCursors.Make(of, items[len(items)-1].ID)
	}
	return items, part, err
}

var errNoOffer = fault.New(fault.NotFound, "There is no such offer.")

func (a *API) offer(w http.ResponseWriter, c *call) error {
	id, ok := parseUUID(c.PathValue("id"))
	if !ok {
		return errNoOffer
	}
	o, err := a.Applications.Offer(c.Context(), c.institution.ID, id)
	if err != nil {
		return err
	}
	return web.WriteJSON(w, http.StatusOK, recordResponse{Data: a.wireOffer(c, o)})
}
