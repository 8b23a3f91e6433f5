package app

import (
	"context"
	"fmt"
	"path/filepath"
	"runtime"
	"strconv"
	"time"

	"github.com/certvault/certvault/internal/account"
	"github.com/certvault/certvault/internal/audit"
	"github.com/certvault/certvault/internal/authority"
	"github.com/certvault/certvault/internal/backup"
	"github.com/certvault/certvault/internal/cert"
	"github.com/certvault/certvault/internal/job"
	"github.com/certvault/certvault/internal/quota"
	"github.com/certvault/certvault/internal/search"
	"github.com/certvault/certvault/internal/web/panel"
)

// lateDelivery is the time after which a due delivery to a healthy endpoint is considered late.
const lateDelivery = 5 * time.Minute

// access returns the services for the panel's pages about members, invitations and the
// installation.
func (a *App) access(signIn panel.SessionStarter) panel.Access {
	mailTransport, outbox := "the mail server of --smtp", ""
	if a.cfg.SMTP == "" {
		outbox = a.outbox()
		mailTransport = "no mail server, because --smtp is not set; messages are written to the folder " + outbox
	}
	return panel.Access{
		Accounts: a.Accounts, Audit: audit.New(a.DB), People: a.People, SignIn: signIn, SetupRemote: a.cfg.SetupRemote, OwnCertificate: a.ownCertificate(),
		Invitations: a.Invitations,
		CreateKeys:  a.CreateKeys, SendTestMail: a.Mailer.Try, Outbox: outbox,
		Status:  func(ctx context.Context) (*panel.Status, error) { return a.status(ctx, mailTransport) },
		Numbers: a.numbers,
		Servers: func(ctx context.Context) (*panel.Servers, error) {
			now := a.DB.Now()
			nodes, err := job.ListNodes(ctx, a.DB, now)
			if err != nil {
				return nil, err
			}
			tasks, err := job.ListTasks(ctx, a.DB, now)
			return &panel.Servers{Nodes: nodes, Tasks: tasks}, err
		},
	}
}

// ownCertificate returns the file with the TLS certificate that the vault has created for itself, or ""
// if the server does not use that certificate.
func (a *App) ownCertificate() string {
	if a.cfg.TLSCert != "" || a.cfg.ACMEDomain != "" || len(a.cfg.BehindProxy) > 0 {
		return ""
	}
	return filepath.Join(a.cfg.Data, "tls", ownCertificateFile)
}

// status returns the state of the installation. It runs only quick checks.
func (a *App) status(ctx context.Context, mailTransport string) (*panel.Status, error) {
	s := &panel.Status{
		Version: Version(), Go: runtime.Version(), Database: string(a.DB.Dialect), BaseURL: a.cfg.BaseURL, StartedAt: a.startedAt, MailTransport: mailTransport,
	}
	var err error
	if s.Schema, s.SchemaKnown, err = a.DB.SchemaVersion(ctx); err != nil {
		return nil, err
	}
	if s.Queues, err = job.Depths(ctx, a.DB); err != nil {
		return nil, err
	}
	if s.Mail, err = a.Mailer.Count(ctx); err != nil {
		return nil, err
	}
	if s.Institutions, err = a.Accounts.CountInstitutions(ctx); err != nil {
		return nil, err
	}
	s.Findings, err = a.findings(ctx, s)
	return s, err
}

// numbers returns the usage and the totals of certificates of the institutions with the given ids. It
// reads only stored counts.
func (a *App) numbers(ctx context.Context, ids []int64) (map[int64]panel.Numbers, error) {
	if len(ids) == 0 {
		return map[int64]panel.Numbers{}, nil
	}
	used, err := quota.Of(ctx, a.DB, time.Now(), ids...)
	if err != nil {
		return nil, err
	}
	totals, err := search.Totals(ctx, a.DB, ids...)
	if err != nil {
		return nil, err
	}
	all := make(map[int64]panel.Numbers, len(ids))
	for _, id := range ids {
		all[id] = panel.Numbers{Usage: used[id], Certificates: totals[id]}
	}
	return all, nil
}

// count returns n followed by a space and the noun, with an s if n is not 1.
func count(n int, noun string) string {
	if n != 1 {
		noun += "s"
	}
	return strconv.Itoa(n) + " " + noun
}

// findings returns the results of the checks that are most important to an operator. The doctor
// command checks more.
func (a *App) findings(ctx context.Context, s *panel.Status) (list []panel.Finding, err error) {
	add := func(name string, good bool, format string, args ...any) {
		list = append(list, panel.Finding{Name: name, Good: good, Detail: fmt.Sprintf(format, args...)})
	}
	add("Database", s.Schema >= s.SchemaKnown, "%s, schema %d of %d", s.Database, s.Schema, s.SchemaKnown)
	address := checkAddress(a.cfg.BaseURL)
	if address == nil {
		add("Address", true, "%s", a.cfg.BaseURL)
	} else {
		add("Address", false, "%v; issue real certificates only after starting the server with a public address in --base-url", address)
	}
	f, err := examineRestore(ctx, a.DB, func(ctx context.Context) (*backup.Unknown, error) {
		return backup.ListUnknown(ctx, backup.Services{Accounts: a.Accounts, Tokens: a.Tokens, Hooks: a.Hooks, Keys: a.Keys}, time.Now())
	})
	if err != nil {
		return nil, err
	}
	if f != nil {
		add("Restore", f.Good, "%s", f.Detail)
	}
	detail, err := disk(a.cfg.Data)
	if err != nil {
		detail = err.Error()
	}
	add("Disk", err == nil, "%s", detail)
	stuck, err := cert.Stuck(ctx, a.DB, time.Now().Add(-stuckAfter))
	if err != nil {
		return nil, err
	}
	keyless, err := account.WithoutKey(ctx, a.DB)
	if err != nil {
		return nil, err
	}
	add("Processing", stuck == 0, "%s in processing for over an hour", count(stuck, "certificate"))
	damaged, err := a.Certs.Damaged(ctx)
	if err != nil {
		return nil, err
	}
	add("Stored files", damaged == 0, "%d damaged", damaged)
	detail, err = examineBackups(ctx, a.DB)
	if err != nil {
		detail = err.Error()
	}
	add("Backups", err == nil, "%s", detail)
	if expiring, err := a.Keys.Expiring(ctx, time.Now().Add(authority.ExpiresSoon)); err != nil {
		add("Signing keys", false, "%v", err)
	} else {
		add("Signing keys", len(keyless) == 0 && expiring == 0, "%s without a signing key, %s with a certificate that has expired or expires within 90 days",
			count(len(keyless), "institution"), count(expiring, "institution"))
	}
	if a.cfg.SMTP == "" {
		add("Mail", false, "no mail server is configured (--smtp); %s of the last 30 days not sent, only written to the outbox folder", count(s.Mail.Unsent, "message"))
	} else {
		add("Mail", s.Mail.Failed == 0, "%s failed in the last 30 days, %d waiting to be sent", count(s.Mail.Failed, "message"), s.Mail.Queued)
	}
	hooks, err := a.Hooks.Condition(ctx)
	if err != nil {
		return nil, err
	}
	add("Webhooks", hooks.Off == 0 && hooks.Open == 0 && hooks.OldestDue <= lateDelivery, "%s paused after errors, %d not available; the oldest due delivery has waited %s",
		count(hooks.Off, "endpoint"), hooks.Open, hooks.OldestDue.Round(time.Second))
	return list, nil
}
