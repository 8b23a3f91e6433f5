package app

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"slices"
	"strings"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"
	"github.com/prometheus/client_golang/prometheus/promhttp"

	"github.com/certvault/certvault/internal/authority"
	"github.com/certvault/certvault/internal/batch"
	"github.com/certvault/certvault/internal/cert"
	"github.com/certvault/certvault/internal/config"
	"github.com/certvault/certvault/internal/db"
	"github.com/certvault/certvault/internal/limit"
	"github.com/certvault/certvault/internal/listing"
	"github.com/certvault/certvault/internal/resolver"
	"github.com/certvault/certvault/internal/safehttp"
	"github.com/certvault/certvault/internal/search"
	"github.com/certvault/certvault/internal/web"
	"github.com/certvault/certvault/internal/web/api"
	"github.com/certvault/certvault/internal/web/help"
	"github.com/certvault/certvault/internal/web/openapi"
	"github.com/certvault/certvault/internal/web/page"
	"github.com/certvault/certvault/internal/web/panel"
	"github.com/certvault/certvault/internal/web/public"
	recipientpages "github.com/certvault/certvault/internal/web/recipient"
	"github.com/certvault/certvault/internal/web/signin"
	"github.com/certvault/certvault/internal/web/wallet"
)

const (
	headerTime = 10 * time.Second
	// bodyTime and responseTime limit requests whose handlers set no other limits.
	bodyTime     = 30 * time.Second
	responseTime = 60 * time.Second
	idleTime     = 2 * time.Minute
	maxHeader    = 64 << 10
)

// listen opens the ports before any other part starts, so that a port in use is reported early. If no base
// URL is set, listen derives it from the actual port. It then starts the public server, so that health
// checks succeed while the database is migrated.
func (a *App) listen(ctx context.Context) (err error) {
	var l net.ListenConfig
	if a.listener = a.cfg.Public; a.listener == nil {
		if a.listener, err = l.Listen(ctx, "tcp", a.cfg.Listen); err != nil {
			return fmt.Errorf("--listen: %w", err)
		}
	}
	if a.metricsAt = a.cfg.Sockets.Metrics; a.metricsAt == nil && a.cfg.Metrics != "" {
		if a.metricsAt, err = l.Listen(ctx, "tcp", a.cfg.Metrics); err != nil {
			return fmt.Errorf("--metrics: %w", err)
		}
	}
	_, port, err := net.SplitHostPort(a.listener.Addr().String())
	if err != nil {
		return fmt.Errorf("--listen: %w", err)
	}
	if err := a.cfg.FinishBaseURL(port); err != nil {
		return err
	}
	return a.openPublic(ctx)
}

// openPublic starts the server of the public port. Its handler is the gate, which opens when the vault
// has started.
func (a *App) openPublic(ctx context.Context) error {
	tlsConfig, err := a.tlsConfig(ctx)
	if err != nil {
		return err
	}
	a.public = &http.Server{
		Handler: a.gate, TLSConfig: tlsConfig, ReadHeaderTimeout: headerTime, ReadTimeout: bodyTime, WriteTimeout: responseTime,
		IdleTimeout: idleTime, MaxHeaderBytes: maxHeader, ErrorLog: slog.NewLogLogger(a.log.Handler(), slog.LevelDebug),
		// OPTIONS * is handled like any other request, with a request id and a log entry.
		DisableGeneralOptionsHandler: true,
		ConnState:                    a.newConns.track,
		BaseContext:                  func(net.Listener) context.Context { return db.Urgent(context.Background()) },
	}
	a.accepting = make(chan struct{})
	a.runServer(func() error {
		defer close(a.accepting)
		if tlsConfig == nil {
			return a.public.Serve(a.listener)
		}
		return a.public.ServeTLS(a.listener, "", "")
	})
	return nil
}

// prepareServers creates the handler of the public port and the server of metrics.
func (a *App) prepareServers() (err error) {
	if a.gate.handler, err = a.handler(); err != nil {
		return err
	}
	if a.metricsAt == nil {
		return nil
	}
	a.registry.MustRegister(collectors.NewGoCollector(), collectors.NewProcessCollector(collectors.ProcessCollectorOpts{}))
	mux := http.NewServeMux()
	mux.Handle("GET /metrics", promhttp.HandlerFor(a.registry, promhttp.HandlerOpts{}))
	if a.cfg.Debug {
		profiles(mux)
	}
	a.metrics = &http.Server{Handler: mux, ReadHeaderTimeout: headerTime, ReadTimeout: bodyTime, WriteTimeout: responseTime}
	return nil
}

func (a *App) handler() (http.Handler, error) {
	proxies, err := a.cfg.Proxies()
	if err != nil {
		return nil, err
	}
	publicLimit, tokenLimit := limit.NewCounter(a.cfg.PublicRateLimit, time.Now), limit.NewCounter(a.cfg.RateLimit, time.Now)
	// The counter has no default limit (0), because each institution has its own limit.
	institutionLimit := limit.NewCounter(0, time.Now)
	a.registerMetrics(publicLimit, tokenLimit, institutionLimit)
	a.shareLimits(publicLimit, tokenLimit, institutionLimit)
	docs, err := openapi.New(a.cfg.BaseURL, publicLimit, a.drill)
	if err != nil {
		return nil, err
	}
	site, err := page.NewSite(a.Languages, public.Assets, signin.Assets, panel.Assets, recipientpages.Assets, help.Assets)
	if err != nil {
		return nil, err
	}
	if a.drill {
		site.ShowDrill()
	}
	if web.IsLocal(a.cfg.BaseURL) {
		site.ShowTest()
	}
	pages := &public.Pages{
		Site: site, Accounts: a.Accounts, Certs: a.Certs, Applications: a.Applications, Links: a.links, Limit: publicLimit, Now: time.Now,
		Keys: a.Keys, Verified: a.Verifications.Count, Fonts: a.fonts, Read: a.readPublic,
		Fetcher: a.Issuer.Documents(resolver.New(safehttp.Options{})), Issuer: a.Issuer,
	}
	pagesHandler, err := pages.Handler()
	if err != nil {
		return nil, err
	}
	business := &api.API{
		Certs: a.Certs, Search: a.Search, Batches: a.Batches, Templates: a.Templates, Tokens: a.Tokens, Links: a.links,
		Applications: a.Applications, OfferCursors: listing.NewCursors(a.Keyring, "offers"),
		Limit: tokenLimit, InstitutionLimit: institutionLimit, Keys: a.IdempotencyKeys, Log: a.log,
		Verifications: a.Verifications, Replica: a.replica, Issuer: a.Issuer,
	}
	wallets := &wallet.API{Issuer: a.Issuer, Limit: publicLimit}
	walletsHandler := wallets.Handler()
	manual := &help.Pages{Site: site, Limit: publicLimit}
	helpHandler, err := manual.Handler()
	if err != nil {
		return nil, err
	}
	compress, err := web.Compress()
	if err != nil {
		return nil, err
	}
	people, err := a.peoplePages(site, publicLimit, pages, pagesHandler)
	if err != nil {
		return nil, err
	}
	businessHandler, docsHandler := business.Handler(), docs.Handler()
	a.patterns = slices.Concat([]string{"GET /healthz", "GET /readyz"}, business.Patterns(), docs.Patterns(), pages.Patterns(), wallets.Patterns())
	mux := http.NewServeMux()
	mux.HandleFunc("GET /healthz", func(w http.ResponseWriter, _ *http.Request) { plain(w, http.StatusOK, "ok\n") })
	mux.HandleFunc("GET /readyz", a.ready)
	a.registry.MustRegister(
		a.gauge("certvault_jobs_waiting", "Certificates whose verified PDF is not generated yet.", func(ctx context.Context) (int, error) {
			return search.Processing(ctx, a.DB)
		}),
		a.gauge("certvault_signing_keys_expiring", "Institutions whose signing key has a certificate that has expired or expires within 90 days; the value should be 0.",
			func(ctx context.Context) (int, error) {
				return a.Keys.Expiring(ctx, time.Now().Add(authority.ExpiresSoon))
			}),
		a.gauge("certvault_files_damaged", "Certificates whose stored file failed its last check; the value should be 0.", a.Certs.Damaged),
		a.gauge("certvault_file_check_oldest_seconds", "Age of the oldest check of a stored file; it should be below 35 days.", a.oldestCheck),
		a.gauge("certvault_batch_oldest_seconds", "Time since the oldest batch with unfinished entries was submitted; 0 if all are finished.", a.oldestBatch),
		a.gauge("certvault_backup_age_seconds", "Age of the last complete backup; -1 if there is none.", a.backupAge),
		newNodeMetrics(a), a.nodeGauge(),
		a.gauge("certvault_backup_problems", "1 if the last scheduled backup failed, is late or lacks files; the value should be 0.", a.backupProblems),
	)
	if a.replica != nil {
		a.registry.MustRegister(a.replica)
	}
	health := web.Routes(mux, web.WriteJSONError)
	if !a.cfg.Has(config.Web) {
		none := http.HandlerFunc(withoutWeb)
		return surfaces(none, health, none, none, none, none, none), nil
	}
	return web.Wrap(web.Options{
		Log: a.log, Proxies: proxies, HSTS: a.cfg.TLSCert != "" || a.cfg.ACMEDomain != "" || len(proxies) > 0,
		Drill: a.drill, Metrics: web.NewMetrics(a.registry), Tracer: a.tracer, Now: time.Now,
	}, surfaces(web.CORS(a.cfg.CORSOrigin, compress(businessHandler)), health, compress(docsHandler),
		compress(site.Assets(pages.Render)), compress(walletsHandler), compress(helpHandler), compress(people))), nil
}

// shareLimits shares the counts of requests with the other servers on the database.
func (a *App) shareLimits(public, token, institution *limit.Counter) {
	if a.DB.Dialect == db.SQLite {
		return
	}
	a.shared = limit.NewShared(a.DB, a.store.node, a.DB.Now)
	a.shared.Add("public", public)
	a.shared.Add("token", token)
	a.shared.Add("institution", institution)
}

// surfaces passes each request to the handler of its interface. It is not a mux, because a mux
// redirects unclean paths before the token is checked.
func surfaces(business, health, docs, assets, wallets, manual, pages http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		switch p := r.URL.Path; {
		case p == "/business" || strings.HasPrefix(p, "/business/"):
			business.ServeHTTP(w, r)
		case p == "/healthz" || p == "/readyz":
			health.ServeHTTP(w, r)
		case p == "/openapi.json" || p == "/docs" || strings.HasPrefix(p, "/docs/"):
			docs.ServeHTTP(w, r)
		case strings.HasPrefix(p, page.AssetsPath):
			assets.ServeHTTP(w, r)
		case wallet.Owns(p):
			wallets.ServeHTTP(w, r)
		case p == help.Root || strings.HasPrefix(p, help.Root+"/"):
			manual.ServeHTTP(w, r)
		default:
			pages.ServeHTTP(w, r)
		}
	})
}

// gauge returns a metric that calls count at each request for metrics. The value is -1 if count returns
// an error.
func (a *App) gauge(name, help string, count func(context.Context) (int, error)) prometheus.Collector {
	return prometheus.NewGaugeFunc(prometheus.GaugeOpts{Name: name, Help: help}, func() float64 {
		ctx, cancel := context.WithTimeout(context.Background(), readyTime)
		defer cancel()
		n, err := count(ctx)
		if err != nil {
			a.log.WarnContext(ctx, "counting a metric failed", slog.String("metric", name), slog.Any("error", err))
			return -1
		}
		return float64(n)
	})
}

// oldestCheck returns the age of the oldest check of a stored file in seconds, or 0 if there is none.
func (a *App) oldestCheck(ctx context.Context) (int, error) {
	at, err := cert.OldestCheck(ctx, a.DB)
	if err != nil || at.IsZero() {
		return 0, err
	}
	return int(time.Since(at) / time.Second), nil
}

// oldestBatch returns the age of the oldest unfinished batch in seconds, or 0 if there is none.
func (a *App) oldestBatch(ctx context.Context) (int, error) {
	at, err := batch.OldestUnfinished(ctx, a.DB)
	if err != nil || at.IsZero() {
		return 0, err
	}
	return max(0, int(time.Since(at)/time.Second)), nil
}

// serve lets requests pass to the handlers, and starts the server of metrics.
func (a *App) serve() {
	a.gate.open()
	if a.metrics != nil {
		a.runServer(func() error { return a.metrics.Serve(a.metricsAt) })
	}
}

// runServer runs a server in the background. If the server stops with an error, the vault stops.
func (a *App) runServer(f func() error) {
	go func() {
		if err := f(); err != nil && !errors.Is(err, http.ErrServerClosed) && !errors.Is(err, net.ErrClosed) {
			a.fatal <- fmt.Errorf("serving requests: %w", err)
		}
	}()
}

// stopServing ends the event streams, closes the ports, and waits up to requestTime for running
// requests. Then it closes the connections of requests that are still running, such as a stalled upload
// or a download that the client does not read.
func (a *App) stopServing(ctx context.Context) error {
	wait, cancel := context.WithTimeout(ctx, a.requestTime)
	defer cancel()
	a.gate.close()
	for _, stop := range a.onStop {
		stop()
	}
	var errs []error
	if a.public != nil {
		// Until the server has stopped accepting connections, newConns may lack a connection that was
		// just accepted.
		errs = append(errs, a.listener.Close())
		<-a.accepting
		a.newConns.wait(wait)
	}
	for _, s := range []struct {
		server *http.Server
		at     net.Listener
	}{{a.public, a.listener}, {a.metrics, a.metricsAt}} {
		if s.server != nil {
			if err := s.server.Shutdown(wait); err != nil {
				a.log.WarnContext(ctx, "requests were still running and are interrupted", slog.Any("error", err))
				errs = append(errs, s.server.Close())
			}
		}
		if s.at != nil {
			if err := s.at.Close(); err != nil && !errors.Is(err, net.ErrClosed) {
				errs = append(errs, fmt.Errorf("closing a port: %w", err))
			}
		}
	}
	return errors.Join(errs...)
}
