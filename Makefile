# The targets for developers and CI. `make help` lists them.

.DEFAULT_GOAL := build
.DELETE_ON_ERROR:

# The vault does not need cgo. The build, the tests and the linter use the same setting, so that
# they share the build cache. Only the race detector needs cgo.
export CGO_ENABLED := 0

# With -trimpath, clones in different folders share the build cache.
export GOFLAGS := -trimpath $(GOFLAGS)

# Go reads the version from the tag or the commit. If Git cannot read the repository, the binary has
# no version.
BUILDVCS := $(if $(shell git rev-parse --verify --quiet HEAD 2>/dev/null),true,false)

FUZZTIME  ?= 30s
BENCHTIME ?= 2s
BENCH     ?= .
RECORDS   ?= 1000000
LOAD      ?= 10m
RESTORES  ?= 20

# Embedded files from npm: PDFium's WebAssembly build, a QR decoder for browsers
# without one, fonts, and the JSON-LD contexts of credentials.
PDFIUM := internal/pdfium/wasm/pdfium.wasm.zst
DECODER := internal/web/public/assets/qr/decode.js
FONTS := internal/typeset/fonts/LICENSES.txt.zst
CONTEXTS := internal/credential/contexts/LICENSES.txt

# The embedded help pages, rendered from docs.
HELP := internal/web/help/pages/book.json.zst
EMBEDDED := $(PDFIUM) $(DECODER) $(FONTS) $(CONTEXTS) $(HELP)

# The npm libraries with which receivers check webhooks, for the tests.
RECEIVERS := test/receivers/node_modules/.package-lock.json

# The npm libraries with which verifiers check credentials, for the tests.
VERIFIERS := test/verifiers/node_modules/.package-lock.json

# The npm library with which wallets receive credentials, for the tests.
WALLETS := test/wallets/node_modules/.package-lock.json

# The npm libraries that bench/peers compares with the vault.
PEERS := test/peers/node_modules/.package-lock.json

GOLANGCI := go tool -modfile=tools/go.mod golangci-lint

.PHONY: build
build: $(EMBEDDED) ## build bin/certvault
	go build -buildvcs=$(BUILDVCS) -ldflags='-s -w' -o bin/certvault ./cmd/certvault

# The lock file pins each package by its digest, which npm checks. The licence
# texts are embedded together with the files.
web-deps/node_modules: web-deps/package-lock.json
	cd web-deps && npm ci --silent
	touch $@

# The program checks the digest of the module and compresses it. Earlier versions embedded the
# uncompressed file pdfium.wasm, which is deleted.
$(PDFIUM): web-deps/node_modules internal/pdfium/wasm/SHA256SUMS internal/pdfium/gen/main.go
	rm -f $(@D)/pdfium.wasm
	cp web-deps/node_modules/@embedpdf/pdfium/LICENSE* $(@D)
	go run ./internal/pdfium/gen

$(RECEIVERS) $(VERIFIERS) $(WALLETS) $(PEERS): test/%/node_modules/.package-lock.json: test/%/package-lock.json
	cd $(<D) && npm ci --silent
	touch $@

$(DECODER): web-deps/node_modules
	mkdir -p $(@D)
	cp web-deps/node_modules/qr/LICENSE-MIT web-deps/node_modules/qr/index.js web-deps/node_modules/qr/decode.js $(@D)
	touch $@

# The program checks the digest of each font and compresses it.
$(FONTS): web-deps/node_modules internal/typeset/fonts/SHA256SUMS internal/typeset/gen/main.go
	go run ./internal/typeset/gen

# The program checks the digest of each context.
$(CONTEXTS): web-deps/node_modules internal/credential/contexts/SHA256SUMS internal/credential/gen/main.go
	go run ./internal/credential/gen

$(HELP): $(shell find docs -name '*.md' -o -name contents.txt -o -path '*/pictures/*') CONTRIBUTING.md CHANGELOG.md $(wildcard internal/web/help/gen/*.go internal/web/help/book/*.go)
	go run ./internal/web/help/gen

.PHONY: run
run: build ## build, and start the vault with its defaults
	bin/certvault serve

.PHONY: demo
demo: build ## show the main function: upload a certificate, get the verified PDF
	go run ./test/demo

.PHONY: deps
deps: $(EMBEDDED) $(RECEIVERS) $(VERIFIERS) $(WALLETS) ## install the programs that the tests need besides Go
	.ci/tools

# Test binaries without debugging information link in two thirds of the time. GOTMPDIR is for build
# files. Tests must not inherit it, because T.TempDir prefers it to TMPDIR. Tests run several vaults in
# one process. With the limit of app.limitMemory, which is for one vault, they would spend half their
# time in the garbage collector, so GOMEMLIMIT is higher.
STRIPPED := -ldflags='-s -w'
TESTFLAGS := $(STRIPPED) -exec='env -u GOTMPDIR GOMEMLIMIT=2GiB'

.PHONY: test
test: deps ## run all tests, on SQLite and a private PostgreSQL
	go run ./test/pgcluster -fsync=off -- go test $(TESTFLAGS) -timeout 8m ./...

# SEQUENTIAL are packages most of whose tests use one goroutine. Under the race detector, these tests
# would take two fifths of the time of all tests, so they run without it. CONCURRENT matches the tests that
# use several goroutines. Tests of other packages under the race detector also use the packages of SEQUENTIAL.
SEQUENTIAL := ./cmd/certvault ./internal/bulkimport ./internal/colour ./internal/config ./internal/credential ./internal/design \
	./internal/design/builtin ./internal/doctext ./internal/locale ./internal/pades ./internal/pdf ./internal/recovery \
	./internal/seal ./internal/search ./internal/sheet ./internal/typeset ./internal/web/help ./internal/web/openapi
CONCURRENT := ^(TestDeterministic|TestSnapshot|TestTimeStamp|TestFlippedByteIsNeverValid|TestServerContinues.*|TestRepeatedErrors.*|TestDoctorSendsATestMessage|TestUpload|TestBulk|TestInterruptedBulk|TestVerifyIsInterrupted|TestUnpackingResumes|TestSubmissionResumes|TestCountsAreAlwaysExact)$$
CONCURRENT_PACKAGES := ./cmd/certvault ./internal/bulkimport ./internal/design ./internal/pades ./internal/pdf ./internal/search ./internal/typeset

.PHONY: test/long
test/long: deps ## run in full the tests that test/race shortens or omits
	go run ./test/pgcluster -fsync=off -- go run ./test/long $(SEQUENTIAL) -- $(TESTFLAGS) -vet=off -timeout 8m

.PHONY: test/quick
test/quick: $(EMBEDDED) ## test changed packages and their importers, on SQLite, in 20 s
	.ci/quick

# The race detector does not check these packages. The C code of SQLite and its C library, translated
# to Go, have their own locks and memory, and are five times slower under the race detector. The codecs
# and the password hash compute in one goroutine, or wait for the goroutines that they start, and took
# a fifth of the time. Before you add a package, check its use of sync, sync/atomic and generic functions.
# Without instrumented atomic operations on data that other packages also use, the detector reports races
# that do not exist. The linker keeps one copy of a generic function, which could be one without
# instrumentation.
UNWATCHED := $(foreach package,modernc.org/sqlite/lib modernc.org/libc modernc.org/memory \
	golang.org/x/crypto/argon2 regexp/syntax compress/flate image/png image/jpeg golang.org/x/image/draw \
	golang.org/x/image/vector rsc.io/qr/coding github.com/go-text/typesetting/harfbuzz \
	github.com/go-text/typesetting/font/opentype/tables,-gcflags='$(package)=-race=false')

# Tests do not inherit GOGC, which is for the compiler, because a larger heap needs more shadow memory.
# By default, each test binary waits for one second before it exits. vet is off, because `make lint`
# includes it.
RACEFLAGS := -race $(UNWATCHED) $(STRIPPED) -exec='env -u GOTMPDIR -u GOGC GOMEMLIMIT=2GiB GORACE=atexit_sleep_ms=0' -vet=off -short

.PHONY: test/race
test/race: deps ## run the tests under the race detector (-short: only a part of large corpora)
	go run ./test/pgcluster -fsync=off -- env CGO_ENABLED=1 go test $(RACEFLAGS) -run '$(CONCURRENT)' $(CONCURRENT_PACKAGES)
	go run ./test/pgcluster -fsync=off -- env CGO_ENABLED=1 go test $(RACEFLAGS) -timeout 12m \
		$$(go list ./... | grep -vxF $(foreach package,$(SEQUENTIAL),-e $(package:./%=github.com/certvault/certvault/%)))

# The test cache is off, because Go does not detect that the binary changed. Four
# tests run in parallel even on two cores, because tests that kill the server wait
# most of the time. The vault must not inherit GOGC, which is for the compiler.
E2E := go run ./test/pgcluster -- go test $(STRIPPED) -exec='env -u GOTMPDIR -u GOGC' -vet=off -count=1 -parallel 4 -timeout 15m -tags e2e

.PHONY: test/e2e
test/e2e: deps build ## run the end-to-end tests on the built binary
	$(E2E) ./test/e2e/...

.PHONY: test/e2e-short
test/e2e-short: export CERTVAULT_PEBBLE := $(CURDIR)/bin/pebble
test/e2e-short: deps build bin/pebble ## run the end-to-end tests; the tests of pages, API and texts only on SQLite
	$(E2E) -short ./test/e2e/...

# The npm packages that check pages. They are not a part of the vault.
CHECKERS := test/quality/node_modules

$(CHECKERS): test/quality/package-lock.json
	cd test/quality && npm ci --silent
	touch $@

# The S3 servers of the tests. Each has its own module file, which pins its version. S3 selects the
# servers. MinIO takes 12 minutes to build, and versitygw takes 2. CI does not build them and skips their
# tests, because the tests of the file store also run with an S3 server in memory.
S3 ?= versitygw
S3_PACKAGES := ./internal/blob ./internal/app ./internal/vault

bin/versitygw: test/s3/versitygw.mod
	go build -modfile=$< $(STRIPPED) -o $@ github.com/versity/versitygw/cmd/versitygw

bin/minio: test/s3/minio.mod
	go build -modfile=$< $(STRIPPED) -o $@ github.com/minio/minio

.PHONY: test/s3
test/s3: export CERTVAULT_VERSITYGW := $(if $(filter versitygw,$(S3)),$(CURDIR)/bin/versitygw)
test/s3: export CERTVAULT_MINIO := $(if $(filter minio,$(S3)),$(CURDIR)/bin/minio)
test/s3: deps build $(S3:%=bin/%) ## test the file store on the S3 servers in S3 ("versitygw minio", default versitygw)
	go run ./test/pgcluster -fsync=off -- go test $(TESTFLAGS) -vet=off -count=1 -run 'S3' $(S3_PACKAGES)
	$(E2E) -run 'S3' ./test/e2e

# Without the tag, promtool contains the clients of all cloud providers, and its build takes much longer.
bin/promtool: test/alerts/promtool.mod
	go build -modfile=$< -tags=remove_all_sd -trimpath $(STRIPPED) -o $@ github.com/prometheus/prometheus/cmd/promtool

.PHONY: test/alerts
test/alerts: bin/promtool ## test the alerts for Prometheus
	bin/promtool check rules --lint=all --lint-fatal deploy/prometheus/alerts.yaml
	bin/promtool test rules deploy/prometheus/alerts_test.yaml

# pebble is an ACME server for tests.
bin/pebble: test/acme/pebble.mod
	go build -modfile=$< -trimpath $(STRIPPED) -o $@ github.com/letsencrypt/pebble/v2/cmd/pebble

.PHONY: test/acme
test/acme: export CERTVAULT_PEBBLE := $(CURDIR)/bin/pebble
test/acme: deps build bin/pebble ## test a TLS certificate that several servers share, and its renewal, on an ACME server
	$(E2E) -run '^TestACME' ./test/e2e

.PHONY: test/replica
test/replica: deps build ## test reads from replicas of PostgreSQL that stop, hang and fall behind
	$(E2E) -run '^TestReplicas?$$' ./test/e2e

# The packages, for Linux and the architecture of this machine. VERSION is the tag of the commit, or a
# version between the last tag and the next one. All files have the time of the commit. IMAGE_FONTS is a
# folder whose fonts are added to the image.
PACKAGES := dist
VERSION ?= $(or $(shell git describe --tags --match 'v*' 2>/dev/null | sed -E 's/^v//; s/-([0-9]+)-g/+\1.g/'),0~$(shell git show -s --format=%cd.%h --date=format:%Y%m%d 2>/dev/null))
SOURCE_DATE_EPOCH ?= $(shell git show -s --format=%ct 2>/dev/null)
IMAGE_FONTS ?=
ARCH := $(shell go env GOARCH)

bin/package: $(wildcard deploy/package/*.go) deploy/package/go.mod
	go -C deploy/package build $(STRIPPED) -o $(CURDIR)/$@ .

.PHONY: package
package: $(EMBEDDED) bin/package ## build deb, rpm, tar.gz, image and bill of materials into dist/
	GOOS=linux go build -buildvcs=$(BUILDVCS) $(STRIPPED) -o bin/certvault-linux ./cmd/certvault
	rm -rf $(PACKAGES)
	bin/package -root . -binary bin/certvault-linux -version '$(VERSION)' -arch $(ARCH) -epoch $(SOURCE_DATE_EPOCH) -fonts '$(IMAGE_FONTS)' -out $(PACKAGES)

.PHONY: package/reproducible
package/reproducible: package ## build the packages again from a clone with an empty cache, and compare them
	.ci/reproducible $(PACKAGES) '$(VERSION)'

.PHONY: test/package
test/package: package ## install and run each package in a fresh root; requires root and Linux
	.ci/tools rpm
	go -C deploy/package test ./...
	deploy/package/test.sh $(PACKAGES)

# The tests of several nodes need HAProxy, a binary with a clock that tests can change, and a binary with
# an earlier schema, which is built from the commit PREVIOUS. Each test takes up to half an hour. NODES
# selects the tests. KILLS is the number of kills in TestClusterKilled, and ROUNDS the number of rounds of
# the other tests.
PREVIOUS ?= 59307375
KILLS    ?= 100
ROUNDS   ?= 10
NODES    ?= TestCluster

bin/haproxy: .ci/unpack
	mkdir -p $(@D)
	.ci/unpack haproxy $@ haproxy liblua5.3-0 libopentracing-c-wrapper0 libopentracing1

bin/nginx: .ci/unpack
	mkdir -p $(@D)
	.ci/unpack nginx $@ nginx

bin/caddy: test/proxies/caddy.mod
	go build -modfile=$< -trimpath $(STRIPPED) -o $@ github.com/caddyserver/caddy/v2/cmd/caddy

.PHONY: test/proxies
test/proxies: export CERTVAULT_HAPROXY := $(CURDIR)/bin/haproxy
test/proxies: export CERTVAULT_NGINX := $(CURDIR)/bin/nginx
test/proxies: export CERTVAULT_CADDY := $(CURDIR)/bin/caddy
test/proxies: deps build bin/haproxy bin/nginx bin/caddy ## test the examples for HAProxy, nginx and Caddy in front of three servers
	$(E2E) -v -run '^TestProxies$$' ./test/e2e

bin/certvault-skewed: test/skew/main.go $(EMBEDDED) build
	go run ./test/skew $@ $(STRIPPED)

# The commit PREVIOUS does not change, so its binary is built only once. The binary embeds the npm files of
# the current commit.
bin/certvault-previous: | $(EMBEDDED)
	rm -rf $@.d
	mkdir -p $@.d/$(dir $(DECODER))
	git archive $(PREVIOUS) | tar -x -C $@.d
	cp web-deps/node_modules/@embedpdf/pdfium/dist/pdfium.wasm $(dir $(PDFIUM))LICENSE* $@.d/$(dir $(PDFIUM))
	cp $(dir $(DECODER))* $@.d/$(dir $(DECODER))
	cp $(dir $(FONTS))*.zst $@.d/$(dir $(FONTS))
	cd $@.d && go build -buildvcs=false $(STRIPPED) -o $(CURDIR)/$@ ./cmd/certvault
	rm -rf $@.d

.PHONY: test/nodes
test/nodes: export CERTVAULT_VERSITYGW := $(if $(filter versitygw,$(S3)),$(CURDIR)/bin/versitygw)
test/nodes: export CERTVAULT_MINIO := $(if $(filter minio,$(S3)),$(CURDIR)/bin/minio)
test/nodes: export CERTVAULT_HAPROXY := $(CURDIR)/bin/haproxy
test/nodes: export CERTVAULT_SKEWED := $(CURDIR)/bin/certvault-skewed
test/nodes: export CERTVAULT_PREVIOUS := $(CURDIR)/bin/certvault-previous
test/nodes: export CERTVAULT_KILLS := $(KILLS)
test/nodes: export CERTVAULT_ROUNDS := $(ROUNDS)
test/nodes: deps build bin/haproxy bin/certvault-skewed bin/certvault-previous $(S3:%=bin/%) ## test failures of three nodes behind HAProxy, on the S3 servers in S3 (an hour for each)
	go run ./test/pgcluster -- go test $(STRIPPED) -exec='env -u GOTMPDIR -u GOGC' -vet=off -v -count=1 -timeout 6h -tags e2e -run '$(NODES)' ./test/e2e

.PHONY: quality
quality: deps build $(CHECKERS) ## check the pages in a browser: axe, markup, behaviour, Lighthouse
	.ci/tools chromium default-jre-headless
	go run ./test/quality pages scores behaviour

.PHONY: quality/quick
quality/quick: deps build $(CHECKERS) ## check the pages in fewer variants, for CI
	.ci/tools chromium
	go run ./test/quality pages-quick behaviour

.PHONY: screenshots
screenshots: deps build $(CHECKERS) ## write every page and state to test/screenshots, and the pictures of the README and the help
	.ci/tools chromium
	go run ./test/quality screenshots pictures

.PHONY: lint
lint: $(EMBEDDED) ## check the code against .golangci.yaml
	$(GOLANGCI) run

.PHONY: verify
verify: $(EMBEDDED) ## check that generated files and module files are up to date
	.ci/generated
	@# .ci/generated writes files in docs. The help pages are rendered here, and not in each later stage of .ci/run.
	$(MAKE) --no-print-directory $(HELP)
	go mod verify
	go mod tidy -diff

.PHONY: fuzz
fuzz: $(EMBEDDED) ## run every fuzz target for FUZZTIME (30s) each
	.ci/fuzz $(FUZZTIME)

.PHONY: bench
bench: deps build ## run benchmarks; BENCH selects, BENCHTIME (2s) is the duration
	go run ./test/pgcluster -fsync=on -- go test -run '^$$' -bench '$(BENCH)' -benchtime $(BENCHTIME) ./...

.PHONY: bench/peers
bench/peers: deps $(PEERS) ## compare the sealing of a certificate with pdfcpu, qpdf, pdf-lib and @libpdf/core
	go test -run '^$$' -bench Peers -benchtime 300x -count 3 ./internal/seal

.PHONY: bench/lists
bench/lists: deps build ## measure lists of RECORDS (1000000) certificates, which it creates first
	CERTVAULT_BENCH_RECORDS=$(RECORDS) go run ./test/pgcluster -fsync=on -- go test -run '^$$' -bench Lists -benchtime 1x -timeout 2h ./test/bench

.PHONY: bench/restore
bench/restore: deps ## measure the restore of RECORDS (1000000) certificates, and cp and tar of the same files
	CERTVAULT_BENCH_RECORDS=$(RECORDS) go run ./test/pgcluster -fsync=on -- go test -run '^$$' -bench Restore -benchtime 1x -timeout 2h ./test/bench

.PHONY: bench/backup
bench/backup: deps build ## make backups every 5 s for LOAD (10m) of uploads, and restore RESTORES (20) of them
	CERTVAULT_BACKUP_LOAD=$(LOAD) CERTVAULT_BACKUP_RESTORES=$(RESTORES) go run ./test/pgcluster -fsync=on -- \
		go test -v -count=1 -parallel 1 -timeout 3h -tags e2e -run TestBackupsUnderLoad ./test/e2e

.PHONY: clean
clean: ## remove all built and downloaded files
	rm -rf bin $(PACKAGES) web-deps/node_modules test/peers/node_modules test/receivers/node_modules test/verifiers/node_modules test/wallets/node_modules $(CHECKERS) test/screenshots $(PDFIUM) $(dir $(PDFIUM))LICENSE* $(dir $(DECODER)) $(dir $(FONTS))*.zst $(dir $(HELP)) $(CONTEXTS) $(dir $(CONTEXTS))*.json

.PHONY: help
help: ## list these targets
	@awk -F ':.*## ' '/^[a-z0-9\/-]+:.*## / { printf "%-15s %s\n", $$1, $$2 }' $(MAKEFILE_LIST)
