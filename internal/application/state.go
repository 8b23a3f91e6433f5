package application

import (
	"fmt"
	"slices"
	"strings"

	"github.com/certvault/certvault/internal/audit"
	"github.com/certvault/certvault/internal/cert"
	"github.com/certvault/certvault/internal/webhook"
)

//go:generate go run ./gen ../../docs/states.md

// role is the role of a person or program that takes a step.
type role string

// These are the roles. A reviewer is a member who reviews applications, and the system is the vault.
const (
	applicant role = "applicant"
	reviewer  role = "reviewer"
	apiToken  role = "token"
	system    role = "system"
)

// none is the state before the application exists. accepted is the state after the approval. From then on,
// the row in the table certificates has the status of the certificate.
const (
	none     cert.Status = ""
	accepted cert.Status = "accepted"
)

// trigger is the name of a step.
type trigger string

const (
	triggerSubmit   trigger = "submit"
	triggerClaim    trigger = "claim"
	triggerHold     trigger = "hold"
	triggerAnswer   trigger = "answer"
	triggerRelease  trigger = "release"
	triggerApprove  trigger = "approve"
	triggerReject   trigger = "reject"
	triggerWithdraw trigger = "withdraw"
	triggerExpire   trigger = "expire"
)

// step is a row of the table steps.
type step struct {
	Trigger trigger
	From    []cert.Status
	// To is the next state, or none if the state does not change.
	To   cert.Status
	By   []role
	Only string // a further condition, as text for Diagram
	// Event is the webhook event that package cert creates, or "". If a certificate has signatories, the
	// event of triggerApprove is created when the last signatory approves.
	Event webhook.Name
	// Mail is the mail to the applicant, or "".
	Mail string
	// Action is the action of the timeline, and Audit that of the audit log.
	Action string
	Audit  audit.Action
}

var openStates = []cert.Status{cert.Pending, cert.InReview}

// steps is the state machine of an application until its decision. A step that is not in the table is
// refused. The states after the approval are those of the certificate; see package cert.
var steps = []step{
	{Trigger: triggerSubmit, From: []cert.Status{none}, To: cert.Pending, By: []role{applicant, apiToken}, Event: webhook.Created,
		Mail: mailReceived, Action: "submitted", Audit: audit.ApplicationSubmitted},
	{Trigger: triggerClaim, From: []cert.Status{cert.Pending}, To: cert.InReview, By: []role{reviewer, apiToken},
		Action: "claimed", Audit: audit.ApplicationClaimed},
	{Trigger: triggerHold, From: openStates, By: []role{reviewer, apiToken}, Event: webhook.Updated,
		Mail: mailHold, Action: "held", Audit: audit.ApplicationHeld},
	{Trigger: triggerAnswer, From: openStates, By: []role{applicant}, Only: "on hold, not answered", Event: webhook.Updated,
		Action: "answered", Audit: audit.ApplicationAnswered},
	{Trigger: triggerRelease, From: openStates, By: []role{reviewer, apiToken}, Only: "on hold", Event: webhook.Updated,
		Action: "released", Audit: audit.ApplicationReleased},
	{Trigger: triggerApprove, From: openStates, To: accepted, By: []role{reviewer, apiToken}, Event: webhook.Processing,
		Action: "approved", Audit: audit.ApplicationApproved},
	{Trigger: triggerReject, From: openStates, To: cert.Rejected, By: []role{reviewer, apiToken}, Event: webhook.Rejected,
		Mail: mailRejected, Action: "rejected", Audit: audit.ApplicationRejected},
	{Trigger: triggerWithdraw, From: openStates, To: cert.Withdrawn, By: []role{applicant, reviewer, apiToken, system}, Event: webhook.Updated,
		Action: "withdrawn", Audit: audit.ApplicationWithdrawn},
	{Trigger: triggerExpire, From: openStates, To: cert.Lapsed, By: []role{system}, Only: "on hold, not answered in time", Event: webhook.Updated,
		Action: "expired", Audit: audit.ApplicationExpired},
}

func stepOf(t trigger) *step {
	return &steps[slices.IndexFunc(steps, func(s step) bool { return s.Trigger == t })]
}

// check returns errState if the state of an application or the role does not allow the step.
func (s *step) check(a *Application, by role) error {
	if !slices.Contains(s.From, a.state) || !slices.Contains(s.By, by) {
		return errState
	}
	switch s.Trigger { //nolint:exhaustive // the other steps have no condition
	case triggerAnswer, triggerExpire:
		if a.Hold == nil || a.Hold.AnsweredAt != nil {
			return errState
		}
	case triggerRelease:
		if a.Hold == nil {
			return errState
		}
	}
	return nil
}

// Diagram returns the state machine as a part of a Markdown page.
func Diagram() string {
	var b strings.Builder
	b.WriteString("\n# States of an application\n\nGenerated from the table in `internal/application/state.go`. From `accepted` on, the states are those of its certificate.\n\n")
	b.WriteString("```mermaid\nstateDiagram-v2\n")
	for _, s := range steps {
		for _, from := range s.From {
			to := s.To
			if to == none {
				to = from
			}
			start := string(from)
			if from == none {
				start = "[*]"
			}
			fmt.Fprintf(&b, "    %s --> %s: %s\n", start, to, s.Trigger)
		}
	}
	for _, final := range []cert.Status{accepted, cert.Rejected, cert.Withdrawn, cert.Lapsed} {
		fmt.Fprintf(&b, "    %s --> [*]\n", final)
	}
	b.WriteString("```\n\n| Trigger | From | To | Only if | Applicant | Reviewer | Token | System | Event | Mail |\n|---|---|---|---|---|---|---|---|---|---|\n")
	for _, s := range steps {
		from := make([]string, len(s.From))
		for i, f := range s.From {
			if from[i] = string(f); f == none {
				from[i] = "(none)"
			}
		}
		to, event := string(s.To), "none"
		if s.To == none {
			to = "unchanged"
		}
		if s.Event != "" {
			event = "`" + string(s.Event) + "`"
		}
		fmt.Fprintf(&b, "| %s | %s | %s | %s |", s.Trigger, strings.Join(from, ", "), to, s.Only)
		for _, r := range []role{applicant, reviewer, apiToken, system} {
			may := ""
			if slices.Contains(s.By, r) {
				may = "yes"
			}
			fmt.Fprintf(&b, " %s |", may)
		}
		fmt.Fprintf(&b, " %s | %s |\n", event, s.Mail)
	}
	return b.String()
}
