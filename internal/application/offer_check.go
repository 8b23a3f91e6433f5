package application

import (
	"context"
	"regexp"
	"slices"
	"strconv"

	"github.com/certvault/certvault/internal/account"
	"github.com/certvault/certvault/internal/cert"
	"github.com/certvault/certvault/internal/fault"
)

var (
	slugRule = regexp.MustCompile(`^[a-z0-9]+(-[a-z0-9]+)*$`)
	keyRule  = regexp.MustCompile(`^[a-z0-9_]+$`)
)

// FieldTypes are all types of fields.
var FieldTypes = []FieldType{Line, Area, Date, Number, Choice, Check, Upload}

// HoldKinds are all kinds of holds.
var HoldKinds = []HoldKind{Information, Payment, Identity}

// check replaces the values of an input with their stored form. The error is fault.Invalid with
// cert.Problems.
func (s *Service) check(ctx context.Context, institutionID int64, in *OfferInput) error {
	var bad cert.Problems
	if in.Slug = limited(&bad, "slug", in.Slug, maxSlug, true); in.Slug != "" && !slugRule.MatchString(in.Slug) {
		add(&bad, "slug", CodeSlug, 0)
	}
	in.Name = limited(&bad, "name", in.Name, maxLine, true)
	in.Description = limited(&bad, "description", in.Description, maxArea, false)
	in.Criteria = limited(&bad, "criteria", in.Criteria, maxArea, false)
	number(&bad, "hold_days", &in.HoldDays, defaultHold, MaxDays)
	number(&bad, "retention_days", &in.RetentionDays, defaultRetention, MaxDays)
	number(&bad, "max_files", &in.MaxFiles, MaxFiles, MaxFiles)
	in.checkFields(&bad)
	in.checkTexts(&bad)
	for _, f := range []struct {
		field cert.Field
		key   string
	}{{"register_number", in.RegisterNumber}, {"register_name", in.RegisterName}, {"register_birth", in.RegisterBirth}} {
		if f.key != "" && !slices.ContainsFunc(in.Fields, func(x Field) bool { return x.Key == f.key && x.Type != Upload }) {
			add(&bad, f.field, CodeField, 0)
		}
	}
	if err := s.checkReferences(ctx, institutionID, in, &bad); err != nil {
		return err
	}
	return bad.Err()
}

// number replaces 0 with byDefault, and adds a problem for a number that is not between 1 and limit.
func number(bad *cert.Problems, field cert.Field, n *int, byDefault, limit int) {
	if *n == 0 {
		*n = byDefault
	}
	if *n < 1 || *n > limit {
		add(bad, field, CodeRange, limit)
	}
}

func (in *OfferInput) checkFields(bad *cert.Problems) {
	if len(in.Fields) > MaxFields {
		add(bad, "fields", CodeFields, MaxFields)
		return
	}
	in.Fields = slices.Clone(in.Fields)
	seen := map[string]bool{}
	for i := range in.Fields {
		f := &in.Fields[i]
		at := func(part string) cert.Field { return cert.Field("fields." + strconv.Itoa(i) + "." + part) }
		switch f.Key = limited(bad, at("key"), f.Key, maxKey, true); {
		case f.Key == "":
		case !keyRule.MatchString(f.Key) || f.Key == answerKey:
			add(bad, at("key"), CodeKey, 0)
		case seen[f.Key]:
			add(bad, at("key"), CodeSameKey, 0)
		}
		seen[f.Key] = true
		f.Label = limited(bad, at("label"), f.Label, maxLine, true)
		f.Help = limited(bad, at("help"), f.Help, maxColumn, false)
		f.Column = limited(bad, at("column"), f.Column, maxLine, false)
		if !slices.Contains(FieldTypes, f.Type) {
			add(bad, at("type"), CodeType, 0)
		}
		f.checkChoices(bad, at("choices"))
	}
}

func (f *Field) checkChoices(bad *cert.Problems, field cert.Field) {
	if f.Type != Choice {
		f.Choices = nil
		return
	}
	choices := make([]string, len(f.Choices))
	ok := len(choices) > 1 && len(choices) <= MaxChoices
	for i, c := range f.Choices {
		text, code := checkText(c, maxLine)
		ok = ok && code == "" && text != "" && !slices.Contains(choices[:i], text)
		choices[i] = text
	}
	if f.Choices = choices; !ok {
		add(bad, field, CodeChoices, MaxChoices)
	}
}

func (in *OfferInput) checkTexts(bad *cert.Problems) {
	texts := map[HoldKind]string{}
	for kind, text := range in.HoldTexts {
		field := cert.Field("hold_texts." + string(kind))
		if !slices.Contains(HoldKinds, kind) {
			add(bad, "hold_texts", CodeHoldKind, 0)
			continue
		}
		if text = limited(bad, field, text, maxHold, false); text != "" {
			texts[kind] = text
		}
	}
	in.HoldTexts = texts
}

// checkReferences checks that the template and the reviewers belong to the institution.
func (s *Service) checkReferences(ctx context.Context, institutionID int64, in *OfferInput, bad *cert.Problems) error {
	if in.TemplateID != "" {
		if _, err := s.templates.ByUUID(ctx, institutionID, in.TemplateID); fault.Is(err, fault.NotFound) {
			add(bad, "template_id", CodeTemplate, 0)
		} else if err != nil {
			return err
		}
	}
	if len(in.Reviewers) == 0 {
		return nil
	}
	members, err := s.accounts.Members(ctx, institutionID)
	if err != nil {
		return err
	}
	in.Reviewers = slices.Compact(slices.Sorted(slices.Values(in.Reviewers)))
	for _, id := range in.Reviewers {
		if !slices.ContainsFunc(members, func(m account.Member) bool { return m.UserID == id }) {
			add(bad, "reviewers", CodeMember, 0)
			break
		}
	}
	return nil
}
