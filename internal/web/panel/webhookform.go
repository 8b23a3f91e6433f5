package panel

import (
	"net/http"
	"strings"
	"time"

	"github.com/certvault/certvault/internal/fault"
	"github.com/certvault/certvault/internal/webhook"
)

var (
	errNoEvents     = fault.OfField("events", "webhooks.no_events")
	errAllAndChosen = fault.OfField("events", "webhooks.all_and_chosen")
)

// webhookForm is the data of the form of a new or existing endpoint.
type webhookForm struct {
	Visit *Visit
	// Endpoint is the endpoint to change, or nil for a new endpoint.
	Endpoint  *webhookRow
	Name, URL string
	// All reports whether the endpoint subscribes to every event. Chosen are the selected events.
	All    bool
	Chosen map[webhook.Name]bool
	// Headers has a line for each header: the name, a colon and the value. Replace reports whether
	// Headers replaces the existing headers of the endpoint.
	Headers string
	Replace bool
	Events  []eventChoice
}

// eventChoice is an event type. Key is the key of its description, and Example is an example of its
// deliveries.
type eventChoice struct {
	Name         webhook.Name
	Key, Example string
}

func eventChoices() ([]eventChoice, error) {
	list := make([]eventChoice, len(webhook.Names))
	for i, name := range webhook.Names {
		example, err := webhook.Example(name)
		if err != nil {
			return nil, err
		}
		list[i] = eventChoice{name, "webhooks.event_" + keyName(webhook.Name(shortEvent(name))), example}
	}
	return list, nil
}

// submittedWebhook parses the submitted form, and adds the choices of event types.
func submittedWebhook(r *http.Request, v *Visit) (*webhookForm, error) {
	form := &webhookForm{
		Visit: v, Name: r.PostForm.Get("name"), URL: strings.TrimSpace(r.PostForm.Get("url")), All: r.PostForm.Get("which") != "some", Chosen: map[webhook.Name]bool{},
		Headers: r.PostForm.Get("headers"), Replace: r.PostForm.Get("replace_headers") != "",
	}
	for _, name := range r.PostForm["events"] {
		form.Chosen[webhook.Name(name)] = true
	}
	var err error
	form.Events, err = eventChoices()
	return form, err
}

// events returns the event types to subscribe to, or nil for all event types. The error is errAllAndChosen
// if the form has both all and single event types, and errNoEvents if it has none.
func (f *webhookForm) events(r *http.Request) ([]webhook.Name, error) {
	switch chosen := len(r.PostForm["events"]); {
	case f.All && chosen > 0:
		return nil, errAllAndChosen
	case f.All:
		return nil, nil
	case chosen == 0:
		return nil, errNoEvents
	}
	var names []webhook.Name
	for _, name := range r.PostForm["events"] {
		names = append(names, webhook.Name(name))
	}
	return names, nil
}

// headers parses the headers of the form.
func (f *webhookForm) headers() []webhook.Header {
	list := []webhook.Header{}
	for line := range strings.Lines(f.Headers) {
		if line = strings.TrimSpace(line); line != "" {
			name, value, _ := strings.Cut(line, ":")
			list = append(list, webhook.Header{Name: strings.TrimSpace(name), Value: strings.TrimSpace(value)})
		}
	}
	return list
}

// newWebhook shows the form of a new endpoint.
func (p *Panel) newWebhook(w http.ResponseWriter, r *http.Request, v *Visit) error {
	events, err := eventChoices()
	if err != nil {
		return err
	}
	return p.draw(w, r, "webhook_form.html", &webhookForm{Visit: v, All: true, Chosen: map[webhook.Name]bool{}, Events: events})
}

// webhookSecret is the data of the page that shows a new secret of an endpoint once, and of the
// page that asks for confirmation before a rotation.
type webhookSecret struct {
	Visit    *Visit
	Endpoint webhookRow
	Secret   string
	// Until is the time at which the previous secret expires, or nil if there is no previous secret.
	Until *time.Time
}

// createWebhook creates an endpoint and shows its secret once.
func (p *Panel) createWebhook(w http.ResponseWriter, r *http.Request, v *Visit) error {
	form, err := submittedWebhook(r, v)
	if err != nil {
		return err
	}
	names, err := form.events(r)
	var created *webhook.Endpoint
	var secret string
	if err == nil {
		created, secret, err = p.Hooks.CreateNamed(r.Context(), v.Institution().ID, form.Name, form.URL, names, form.headers()...)
	}
	if err != nil {
		return p.showAgain(w, r, "webhook_form.html", form, err)
	}
	return p.draw(w, r, "webhook_secret.html", webhookSecret{v, webhookRow{created, p.Now()}, secret, nil})
}

// editWebhook shows the form of an existing endpoint.
func (p *Panel) editWebhook(w http.ResponseWriter, r *http.Request, v *Visit) error {
	e, err := p.webhookOf(r, v)
	if err != nil {
		return err
	}
	form := &webhookForm{Visit: v, Endpoint: &e, Name: e.Name, URL: e.URL, All: len(e.Events) == 0, Chosen: map[webhook.Name]bool{}}
	for _, name := range e.Events {
		form.Chosen[name] = true
	}
	if form.Events, err = eventChoices(); err != nil {
		return err
	}
	return p.draw(w, r, "webhook_form.html", form)
}

func (p *Panel) updateWebhook(w http.ResponseWriter, r *http.Request, v *Visit) error {
	e, err := p.webhookOf(r, v)
	if err != nil {
		return err
	}
	form, err := submittedWebhook(r, v)
	if err != nil {
		return err
	}
	form.Endpoint = &e
	names, err := form.events(r)
	if err == nil {
		change := webhook.Change{Name: &form.Name, URL: &form.URL, Events: &names}
		if form.Replace {
			headers := form.headers()
			change.Headers = &headers
		}
		err = p.Hooks.Update(r.Context(), v.Institution().ID, e.UUID, change)
	}
	if err != nil {
		return p.showAgain(w, r, "webhook_form.html", form, err)
	}
	return p.redirect(w, r, v, "webhooks/"+e.UUID, "webhook_changed")
}

// askRotateWebhook asks for confirmation before the secret is rotated.
func (p *Panel) askRotateWebhook(w http.ResponseWriter, r *http.Request, v *Visit) error {
	e, err := p.webhookOf(r, v)
	if err != nil {
		return err
	}
	return p.draw(w, r, "webhook_rotate.html", webhookSecret{Visit: v, Endpoint: e})
}

// rotateWebhook creates a new secret for an endpoint and shows the new secret once.
func (p *Panel) rotateWebhook(w http.ResponseWriter, r *http.Request, v *Visit) error {
	e, err := p.webhookOf(r, v)
	if err != nil {
		return err
	}
	secret, until, err := p.Hooks.Rotate(r.Context(), v.Institution().ID, e.UUID)
	if err != nil {
		return p.showAgain(w, r, "webhook_rotate.html", webhookSecret{Visit: v, Endpoint: e}, err)
	}
	return p.draw(w, r, "webhook_secret.html", webhookSecret{v, e, secret, &until})
}
