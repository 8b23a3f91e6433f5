# Everything a developer or CI does goes through here; `make help` lists it.

.DEFAULT_GOAL := build
.DELETE_ON_ERROR:

# The vault needs no cgo, and one setting for build, tests and linter lets them
# share what is compiled. The race detector alone switches it on.
export CGO_ENABLED := 0

# The version is the commit, read by Go itself, whatever GOFLAGS says; outside a
# readable repository the build goes on without one.
BUILDVCS := $(if $(shell git rev-parse --verify --quiet HEAD 2>/dev/null),true,false)

FUZZTIME  ?= 30s
BENCHTIME ?= 2s
BENCH     ?= .
RECORDS   ?= 1000000

# What is embedded and not written here: PDFium's WebAssembly build, and the
# decoder of QR codes for browsers that have none.
PDFIUM := internal/pdfium/wasm/pdfium.wasm
DECODER := internal/web/public/assets/qr/decode.js
EMBEDDED := $(PDFIUM) $(DECODER)

# The npm libraries by which receivers check webhooks, for the tests.
RECEIVERS := test/receivers/node_modules/.package-lock.json

SHA256SUM := $(or $(shell command -v sha256sum),shasum -a 256)

GOLANGCI := go tool -modfile=tools/go.mod golangci-lint

.PHONY: build
build: $(EMBEDDED) ## build bin/certvault
	go build -trimpath -buildvcs=$(BUILDVCS) -o bin/certvault ./cmd/certvault

# The lock file pins each package by its digest, which npm checks; the licence
# texts go into the binary with what they are for.
web-deps/node_modules: web-deps/package-lock.json
	cd web-deps && npm ci --silent
	touch $@

$(PDFIUM): web-deps/node_modules
	cp web-deps/node_modules/@embedpdf/pdfium/LICENSE* $(@D)
	cp web-deps/node_modules/@embedpdf/pdfium/dist/pdfium.wasm $@
	cd $(@D) && $(SHA256SUM) -c SHA256SUMS

$(RECEIVERS): test/receivers/package-lock.json
	cd $(<D) && npm ci --silent
	touch $@

$(DECODER): web-deps/node_modules
	mkdir -p $(@D)
	cp web-deps/node_modules/qr/LICENSE-MIT web-deps/node_modules/qr/index.js web-deps/node_modules/qr/decode.js $(@D)
	touch $@

.PHONY: run
run: build ## build, and start the vault on its embedded default
	bin/certvault serve

.PHONY: demo
demo: build ## show the main job: upload, wait, verified PDF
	go run ./test/demo

.PHONY: deps
deps: $(EMBEDDED) $(RECEIVERS) ## bring in what the tests need beside Go
	.ci/tools

# Test binaries without debugging information link in two thirds of the time.
# Stack traces do not need it.
STRIPPED := -ldflags='-s -w'

.PHONY: test
test: deps ## run every test, on SQLite and a private PostgreSQL
	go run ./test/pgcluster -fsync=off -- go test $(STRIPPED) -timeout 8m ./...

.PHONY: test/quick
test/quick: $(EMBEDDED) ## test what changed and its importers, on SQLite, in 20 s
	.ci/quick

# SQLite, translated from C, serialises itself by its own locks, and takes five times
# as long if the detector watches each of its reads. It watches everything else: a
# package with generic functions must be watched, since the linker keeps one copy of
# each function for the whole program. vet is off, since `make test` vets the same files.
UNWATCHED := -gcflags='modernc.org/sqlite/lib=-race=false'

.PHONY: test/race
test/race: deps ## run the tests under the race detector (-short: heavy corpora in part)
	go run ./test/pgcluster -fsync=off -- env CGO_ENABLED=1 go test -race $(UNWATCHED) $(STRIPPED) -vet=off -short -timeout 12m ./...

# -count=1: the test cache does not see that the binary changed. Four tests at once,
# on two cores too: the tests that kill the vault mostly wait.
.PHONY: test/e2e
test/e2e: deps build ## run the end-to-end tests on the built binary
	go run ./test/pgcluster -- go test -count=1 -parallel 4 -timeout 15m -tags e2e ./test/e2e/...

# The judges of the pages, pinned by their lock file; they are not shipped.
JUDGES := test/quality/node_modules

$(JUDGES): test/quality/package-lock.json
	cd test/quality && npm ci --silent
	touch $@

.PHONY: quality
quality: deps build $(JUDGES) ## judge the pages in a browser: axe, markup, behaviour, Lighthouse
	.ci/tools chromium default-jre-headless
	go run ./test/quality pages scores behaviour

.PHONY: quality/quick
quality/quick: deps build $(JUDGES) ## the part of it that CI has time for
	.ci/tools chromium
	go run ./test/quality pages-quick scores-quick behaviour

.PHONY: screenshots
screenshots: deps build $(JUDGES) ## write every page and state to test/screenshots
	.ci/tools chromium
	go run ./test/quality screenshots

.PHONY: lint
lint: $(EMBEDDED) ## check the code against .golangci.yaml
	$(GOLANGCI) run

.PHONY: verify
verify: $(EMBEDDED) ## check that generated files and module files are up to date
	.ci/generated
	go mod verify
	go mod tidy -diff

.PHONY: fuzz
fuzz: $(EMBEDDED) ## run every fuzz target for FUZZTIME (30s) each
	.ci/fuzz $(FUZZTIME)

.PHONY: bench
bench: deps build ## measure; BENCH selects, BENCHTIME (2s) says how long
	go run ./test/pgcluster -fsync=on -- go test -run '^$$' -bench '$(BENCH)' -benchtime $(BENCHTIME) ./...

.PHONY: bench/lists
bench/lists: deps build ## measure lists of RECORDS (1000000) certificates, which are made first
	CERTVAULT_BENCH_RECORDS=$(RECORDS) go run ./test/pgcluster -fsync=on -- go test -run '^$$' -bench Lists -benchtime 1x -timeout 2h ./test/bench

.PHONY: clean
clean: ## remove what make made
	rm -rf bin web-deps/node_modules test/receivers/node_modules $(JUDGES) test/screenshots $(PDFIUM) $(dir $(PDFIUM))LICENSE* $(dir $(DECODER))

.PHONY: help
help: ## list these targets
	@awk -F ':.*## ' '/^[a-z0-9\/]+:.*## / { printf "%-12s %s\n", $$1, $$2 }' $(MAKEFILE_LIST)
