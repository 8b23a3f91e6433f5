package panel

import (
	"context"
	"errors"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/certvault/certvault/internal/account"
	"github.com/certvault/certvault/internal/audit"
	"github.com/certvault/certvault/internal/cert"
	"github.com/certvault/certvault/internal/db"
	"github.com/certvault/certvault/internal/identity"
	"github.com/certvault/certvault/internal/job"
	"github.com/certvault/certvault/internal/mail"
	"github.com/certvault/certvault/internal/quota"
	"github.com/certvault/certvault/internal/web"
)

// signInRecorder records the arguments of SetSession.
type signInRecorder struct{ entries []*identity.Entry }

func (*signInRecorder) Origin(r *http.Request) identity.Origin {
	return identity.Origin{Address: web.Client(r), UserAgent: r.UserAgent()}
}

func (d *signInRecorder) SetSession(_ http.ResponseWriter, e *identity.Entry) {
	d.entries = append(d.entries, e)
}

// errMail is the error of SendTestMail for an address that the mail server rejects.
var errMail = errors.New("550 no such mailbox here")

// access returns dependencies that append their messages to o.sent. SendTestMail returns errMail for an
// address that begins with "refuse".
func (o *panelTest) access() Access {
	o.signIns = &signInRecorder{}
	return Access{
		Accounts: o.Accounts, Audit: audit.New(o.DB), People: o.People, SignIn: o.signIns,
		Invitations: account.NewInvitations(account.InvitationsConfig{
			Accounts: o.Accounts, Languages: o.Languages, Link: o.Links.To,
			Send: func(_ context.Context, _ *db.Tx, m mail.Message) (string, error) {
				o.sent = append(o.sent, m)
				return "id", nil
			},
		}),
		CreateKeys: func(context.Context) error { return nil },
		SendTestMail: func(_ context.Context, m mail.Message) error {
			if strings.HasPrefix(m.To.Email, "refuse") {
				return errMail
			}
			o.sent = append(o.sent, m)
			return nil
		},
		Status: func(ctx context.Context) (*Status, error) {
			n, err := o.Accounts.CountInstitutions(ctx)
			s := &Status{
				Institutions: n,
				Version:      "v1", Go: "go1", Database: "sqlite", BaseURL: "https://vault.example", StartedAt: o.Now(), MailTransport: "the outbox folder",
				Findings: []Finding{{"database", true, "sqlite"}, {"disk", false, "3% free"}}, Queues: []job.Depth{{Queue: "seal", Waiting: 4}},
				Mail: mail.Count{Queued: 1, Sent: 2, Unsent: 5, Failed: 3, LastError: "The mail server rejected the address.", LastFailedAt: new(time.Unix(0, 0))},
			}
			return s, err
		},
		Numbers: func(_ context.Context, ids []int64) (map[int64]Numbers, error) {
			all := map[int64]Numbers{}
			for _, id := range ids {
				all[id] = Numbers{Usage: quota.Usage{Storage: 3 << 29, Certificates: 4, Counting: true}, Certificates: map[cert.Status]int{cert.Approved: 12, cert.Failed: 3, cert.Rejected: 7}}
			}
			return all, nil
		},
		Servers: func(context.Context) (*Servers, error) {
			return &Servers{
				Nodes: []job.Node{{NodeInfo: job.NodeInfo{Name: "one", Roles: "web,work", Release: "v1"}, ID: "one_1", StartedAt: o.Now(), HeartbeatAt: o.Now(), Alive: true}, {NodeInfo: job.NodeInfo{Name: "two"}, ID: "two_1"}},
				Tasks: []job.Task{{Name: "sweep of jobs", Node: "one_1", LastAt: o.Now(), Took: 12 * time.Millisecond}, {Name: "sweep of mail"}},
			}, nil
		},
	}
}

// invitationSecret returns the secret in the link of the invitation that was mailed last.
func (o *panelTest) invitationSecret(t *testing.T) string {
	t.Helper()
	_, rest, ok := strings.Cut(o.sent[len(o.sent)-1].Text, account.InvitationPath)
	if !ok {
		t.Fatalf("the last message contains no invitation link: %s", o.sent[len(o.sent)-1].Text)
	}
	secret, _, _ := strings.Cut(rest, "\n")
	return secret
}
