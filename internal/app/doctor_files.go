package app

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"time"

	"github.com/certvault/certvault/internal/authority"
	"github.com/certvault/certvault/internal/blob"
	"github.com/certvault/certvault/internal/cert"
	"github.com/certvault/certvault/internal/config"
	"github.com/certvault/certvault/internal/db"
	"github.com/certvault/certvault/internal/job"
	"github.com/certvault/certvault/internal/pades"
	"github.com/certvault/certvault/internal/template"
)

// ExamineFiles reads the stored files of all certificates, compares the files with their digests and
// verifies the signatures. ExamineFiles stores the results, and raises or clears the alarm of each
// certificate. It also checks the files of templates; see template.CheckFiles. The first finding is the
// total of the certificates. Each further finding is about a certificate with a problem (see problemOf) or
// about a damaged file of templates.
func ExamineFiles(ctx context.Context, s config.Storage) (list []Finding) {
	total := Finding{Name: "stored files"}
	var templates []Finding
	n, err := examineFiles(ctx, s, func(c *cert.Certificate, checks []cert.Check) {
		if problem := problemOf(checks); problem != "" {
			list = append(list, Finding{Name: "certificate " + c.ReferenceID, Detail: problem, Remedy: restoreFiles})
		}
	}, func(damage template.Damage) {
		templates = append(templates, Finding{Name: damage.File, Detail: damage.Problem, Remedy: restoreFiles})
	})
	total.Good = err == nil && len(list) == 0
	switch {
	case err != nil:
		total.Detail = fmt.Sprintf("stopped after %s: %v", count(n, "certificate"), err)
	case total.Good:
		total.Detail = fmt.Sprintf("all files of %s are as they were stored", count(n, "certificate"))
	default:
		total.Detail = fmt.Sprintf("certificates with damaged files: %d of %d", len(list), n)
	}
	return withRemedies(slices.Concat([]Finding{total}, list, templates))
}

// examineFiles calls f with the results for each certificate, and damaged for each damaged file of a
// template. It returns the number of certificates.
func examineFiles(ctx context.Context, s config.Storage, f func(c *cert.Certificate, checks []cert.Check), damaged func(template.Damage)) (count int, err error) {
	d, err := openExisting(ctx, s)
	if err != nil {
		return 0, err
	}
	defer func() { err = errors.Join(err, d.Close()) }()
	applied, known, err := d.SchemaVersion(ctx)
	if err != nil {
		return 0, err
	}
	if applied != known {
		return 0, fmt.Errorf("the schema has version %d, and this program supports version %d", applied, known)
	}
	blobs, err := openInstalled(ctx, s, d)
	if err != nil {
		return 0, err
	}
	if blobs, err = requireFiles(s, blobs); err != nil {
		return 0, err
	}
	if err := template.CheckFiles(ctx, d, blobs, damaged); err != nil {
		return 0, err
	}
	certs, err := certsOf(s, d, blobs)
	if err != nil {
		return 0, err
	}
	err = certs.CheckAll(ctx, func(c *cert.Certificate, checks []cert.Check) {
		count++
		f(c, checks)
	})
	return count, err
}

// certsOf returns a service that checks files. It runs no jobs.
func certsOf(s config.Storage, d *db.DB, blobs blob.Store) (*cert.Service, error) {
	options, err := keyOptions(s, "")
	if err != nil {
		return nil, err
	}
	log := slog.New(slog.DiscardHandler)
	queue, err := job.New(d, job.Config{NodeID: "doctor", MaxAttempts: 1, Timeout: cert.SealTimeout, Logger: log})
	if err != nil {
		return nil, err
	}
	return cert.New(cert.Config{DB: d, Blobs: blobs, Queue: queue, Keys: authority.New(d, options), Verify: pades.Verify, Now: time.Now, Log: log}), nil
}

// problems maps the name of a check to the description of its failure.
var problems = map[string]string{
	cert.CheckFile: "the verified PDF is damaged or missing", cert.CheckOriginal: "the original is damaged or missing",
	cert.CheckSignature: "the signature is not valid",
}

// problemOf describes the checks that failed or could not read a file, or returns "". It ignores a check
// of the signature that did not run.
func problemOf(checks []cert.Check) string {
	var list []string
	for _, k := range checks {
		if k.Result == cert.FailedCheck {
			list = append(list, problems[k.Name])
		} else if k.Result == cert.NotRun && k.Name != cert.CheckSignature {
			list = append(list, "a file could not be read")
		}
	}
	return strings.Join(list, "; ")
}
