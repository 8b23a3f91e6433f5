package main

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"

	"github.com/certvault/certvault/internal/account"
	"github.com/certvault/certvault/internal/app"
	"github.com/certvault/certvault/internal/application"
	"github.com/certvault/certvault/internal/cert"
	"github.com/certvault/certvault/internal/config"
	"github.com/certvault/certvault/internal/fault"
)

type offerCommand struct {
	Create offerCreate `cmd:"" help:"Create an offer. People can apply for it when it is open."`
	List   offerList   `cmd:"" help:"List the offers of an institution."`
	Open   offerOpen   `cmd:"" help:"Open an offer, so that people can apply."`
	Close  offerClose  `cmd:"" help:"Close an offer, so that people can no longer apply."`
}

// withOffers opens the offers of an institution and calls f.
func (c *console) withOffers(s config.Storage, slug string, f func(o *application.Service, inst *account.Institution) error) error {
	return c.institution(s, slug, func(base *app.Base, inst *account.Institution) error {
		return offerError(f(base.Offers(), inst))
	})
}

// offerProblems maps the codes of the problems of an offer to messages. The Limit of the problem replaces
// {limit}.
var offerProblems = map[cert.Code]string{
	cert.CodeRequired: "The value is required.", cert.CodeTooLong: "The value must have at most {limit} characters.",
	cert.CodeNotText:      "The value must be text in UTF-8 without NUL characters.",
	application.CodeSlug:  "The slug must consist of lowercase letters and digits, with single hyphens between them.",
	application.CodeTaken: "Another offer of the institution has this slug.", application.CodeRange: "The number must be from 1 to {limit}.",
	application.CodeKey:     "The key must consist of lowercase letters, digits and underscores, and must not be \"answer\".",
	application.CodeSameKey: "An earlier field has this key.",
	application.CodeType:    "The type must be text, area, date, number, choice, check or file.",
	application.CodeChoices: "A field of the type choice needs 2 to {limit} different choices.", application.CodeTemplate: "The institution has no such template.",
	application.CodeFields: "An offer can have at most {limit} fields.",
}

// offerError converts an error with problems to an error with a message for each field. It returns an
// error without problems unchanged. The field template_id is renamed, because its flag is --template.
func offerError(err error) error {
	var bad fault.Fields
	for _, p := range cert.ProblemsOf(err) {
		name := string(p.Field)
		if p.Field == "template_id" {
			name = "template"
		}
		text, ok := offerProblems[p.Code]
		if !ok {
			text = "The value is invalid: " + string(p.Code) + "."
		}
		bad.Add(name, strings.ReplaceAll(text, "{limit}", fmt.Sprint(p.Limit)))
	}
	if bad.Len() > 0 {
		return bad.Err()
	}
	return err
}

type offerRow struct {
	ID         string  `json:"id"`
	Slug       string  `json:"slug"`
	Name       string  `json:"name"`
	Status     string  `json:"status"`
	TemplateID *string `json:"template_id"`
	Fields     int     `json:"fields"`
}

func offerRowOf(o *application.Offer) offerRow {
	r := offerRow{ID: o.UUID, Slug: o.Slug, Name: o.Name, Status: string(o.Status), Fields: len(o.Fields)}
	if o.TemplateID != "" {
		r.TemplateID = &o.TemplateID
	}
	return r
}

type offerCreate struct {
	config.Storage

	Institution string `help:"Slug of the institution." placeholder:"SLUG" required:""`
	Name        string `help:"Name of the offer, which people see." placeholder:"NAME" required:""`
	Slug        string `help:"Last part of the address of the offer: lowercase letters, digits and hyphens." placeholder:"SLUG" required:""`
	Template    string `help:"Id of the template of the certificates. Default: a reviewer adds each file." placeholder:"ID"`
	Description string `help:"Text about the offer, and who can apply." placeholder:"TEXT"`
	Criteria    string `help:"Text about what an applicant must prove." placeholder:"TEXT"`
	Fields      string `help:"JSON file with an array of the fields that people fill in, as the API returns them." placeholder:"FILE" type:"path"`
	FourEyes    bool   `help:"Require that the person who approves is not the person who claimed the application." name:"four-eyes"`
	HoldDays    int    `help:"Days after which an application on hold expires if it is not answered. Default: 14." name:"hold-days" placeholder:"N"`
	MaxFiles    int    `help:"Maximum number of files of an application. Default: 10." name:"max-files" placeholder:"N"`
	Open        bool   `help:"Also open the offer."`
}

// Run creates an offer.
func (o *offerCreate) Run(c *console) error {
	fields, err := o.fields()
	if err != nil {
		return &usageError{err}
	}
	return c.withOffers(o.Storage, o.Institution, func(s *application.Service, inst *account.Institution) error {
		made, err := s.CreateOffer(c.ctx, inst, application.OfferInput{
			Slug: o.Slug, Name: o.Name, TemplateID: o.Template, Description: o.Description, Criteria: o.Criteria, Fields: fields, FourEyes: o.FourEyes,
			HoldDays: o.HoldDays, MaxFiles: o.MaxFiles,
		})
		if err != nil {
			return err
		}
		if o.Open {
			opened, err := s.SetOfferStatus(c.ctx, inst.ID, made.UUID, application.Open)
			if err != nil {
				return fmt.Errorf("the offer %s was created as a draft: %w", made.Slug, err)
			}
			made = opened
		}
		return c.print(offerRowOf(made), func(w io.Writer) {
			printf(w, "%s\n", made.UUID)
			printf(c.stderr, "Offer %s created; its status is %s.\n", made.Name, made.Status)
		})
	})
}

// fields reads the file with the fields.
func (o *offerCreate) fields() (fields []application.Field, err error) {
	if o.Fields == "" {
		return nil, nil
	}
	text, err := os.ReadFile(o.Fields)
	if err != nil {
		return nil, err
	}
	dec := json.NewDecoder(bytes.NewReader(text))
	dec.DisallowUnknownFields()
	if err := dec.Decode(&fields); err != nil {
		return nil, fmt.Errorf("%s is not a JSON array of fields: %w", o.Fields, err)
	}
	return fields, nil
}

type offerList struct {
	config.Storage

	Institution string `help:"Slug of the institution." placeholder:"SLUG" required:""`
}

// Run lists offers, newest first.
func (l *offerList) Run(c *console) error {
	return c.withOffers(l.Storage, l.Institution, func(s *application.Service, inst *account.Institution) error {
		list, err := s.Offers(c.ctx, inst.ID, "")
		if err != nil {
			return err
		}
		rows := make([]offerRow, len(list))
		for i, o := range list {
			rows[i] = offerRowOf(o)
		}
		return c.print(rows, func(w io.Writer) {
			table := newTable(w, "ID", "SLUG", "NAME", "STATUS", "TEMPLATE", "FIELDS")
			for i := range rows {
				r := &rows[i]
				template := "-"
				if r.TemplateID != nil {
					template = *r.TemplateID
				}
				table.row(r.ID, r.Slug, r.Name, r.Status, template, r.Fields)
			}
			table.flush()
		})
	})
}

// offerChange are the flags of the commands that change the status of an offer.
type offerChange struct {
	config.Storage

	Offer       string `arg:"" help:"The offer's id or slug in the output of list." name:"ID"`
	Institution string `help:"Slug of the institution." placeholder:"SLUG" required:""`
}

// change sets the status of the offer.
func (o *offerChange) change(c *console, status application.OfferStatus) error {
	return c.withOffers(o.Storage, o.Institution, func(s *application.Service, inst *account.Institution) error {
		list, err := s.Offers(c.ctx, inst.ID, "")
		if err != nil {
			return err
		}
		found := application.OfferNamed(list, o.Offer)
		if found == nil {
			return errors.New("the institution has no offer with this id or slug")
		}
		changed, err := s.SetOfferStatus(c.ctx, inst.ID, found.UUID, status)
		if err != nil {
			return err
		}
		return c.print(offerRowOf(changed), func(w io.Writer) { printf(w, "Offer %s is %s.\n", changed.Name, changed.Status) })
	})
}

type offerOpen struct{ offerChange }

// Run opens an offer.
func (o *offerOpen) Run(c *console) error { return o.change(c, application.Open) }

type offerClose struct{ offerChange }

// Run closes an offer.
func (o *offerClose) Run(c *console) error { return o.change(c, application.Closed) }
