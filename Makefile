# make build   builds ./stepboard. Needs Go.
# make check   runs the tests of every package and a short walk through the whole service,
#              against a real Redis and a real Postgres: what to run while working. Needs
#              Go, Redis and Postgres; as root on Debian it installs these two.
# make test    runs all tests. Needs also a C compiler, npm's registry and the programs
#              below; as root on Debian it installs them.
# make lint    checks format, go vet, golangci-lint and the layout of packages.
#              Needs Go and, for JavaScript, Node's npx. The first run
#              compiles golangci-lint, which takes minutes.
# make generate  writes the files anew that are generated or copied: the page of settings,
#              the types of the client, the client that the page and the mini program load,
#              and the libraries of the page.
#              Needs Go, Node and npm.
# make format  formats the Go code and the page's code. Needs the same.
# make pictures  makes the pictures of the documents from the demo. Needs what make test
#              needs.
# make sbom    writes stepboard.cdx.json, the software bill of materials of the
#              binary that it builds and of the JavaScript in it, as CycloneDX JSON.
# make licenses  writes THIRD_PARTY_LICENSES, the licences of everything in the binary.
# make vulncheck  looks for known vulnerabilities in what the code calls. Needs
#              the network, or a copy of the database in GOVULNDB.
# make fuzz    tries generated inputs on every decoder, FUZZTIME long each.
# make soak    repeats the tests that kill processes many times, runs all tests under the
#              race detector, and tries inputs for a minute on each decoder: some hours.
# make release-check  makes a snapshot of a release for this machine in dist, and tries its archive,
#              package and chart. Needs root on Debian.
# make release  publishes the release of the tag that is checked out: see CONTRIBUTING.md.
# make bench   measures rates and memory for some minutes, with every core.

GO ?= go
PRETTIER = npx --yes prettier@3.10.1
CLIENT = clients/typescript
MINIPROGRAM = clients/miniprogram/program
GOLANGCI_LINT = $(GO) tool -modfile=tools/golangci-lint/go.mod golangci-lint

# Gin's msgpack codec, which nothing here uses, takes half a minute to compile.
# Every go command gets this tag, so that all of them share one build cache.
export GOFLAGS := $(GOFLAGS) -tags=nomsgpack

# The race detector does not look into SQLite's C code, translated to Go, and into the
# interpreter of the scripts of the simulation's Redis: both stay within one goroutine, and would
# take half of all tests' time. It must look into the database's driver: a generic function that
# is compiled there without it may be the one that is linked, and hide its order from it.
RACE = -race -gcflags='modernc.org/sqlite/lib=-race=false' -gcflags='modernc.org/libc=-race=false' -gcflags='github.com/yuin/gopher-lua/...=-race=false'

# These folders hold tests that drive other processes, or call one after another: there is
# nothing for the race detector. The tests of all other packages run under it, except those of
# files with //go:build !race, which make thousands of calls one after another.
WITHOUT_RACE = ./app/e2e/... ./web/... ./clients/... ./bench/...
UNDER_RACE = $$($(GO) list ./... | grep -vE '^stepboard/(app/e2e|web|clients|bench)(/|$$)')
TAGGED = $(shell grep -rl --include='*_test.go' '^//go:build !race' app handlers internal services)
TESTS_OF_TAGGED = $(shell grep -hoP '^func \KTest\w+' $(TAGGED) | paste -sd'|')
TEST = TEST_BINARY=$(CURDIR)/stepboard scripts/with-servers $(GO) test -vet=off
# With the flags of make build, tests use what it has compiled. The race detector needs C.
TEST_AS_BUILT = CGO_ENABLED=0 $(TEST) -trimpath

# Benchmarks run once, to see that they still do. Left out are sizes that take long.
BENCHMARKED = $(addprefix ./,$(sort $(dir $(shell grep -rl --include='*_test.go' '^func Benchmark' app handlers internal services))))
LONG_BENCHMARKS = /(100k|1M|10000000)$$|//MB=256

.PHONY: build client check test lint generate format pictures sbom licenses vulncheck fuzz soak bench release-check release

build:
	CGO_ENABLED=0 $(GO) build -trimpath -ldflags="-s -w" -o stepboard .

# The packages that build and check the client, and the libraries of the page, are those of
# their lock files.
client:
	. ./scripts/need && need npm nodejs npm
	cd $(CLIENT) && npm ci --ignore-scripts --no-audit --no-fund
	cd web && npm ci --ignore-scripts --no-audit --no-fund

# Tests that start the service run the binary that build made. Vetting is left to make lint,
# whose govet is go vet.
check: build
	$(TEST_AS_BUILT) -timeout=10m $(UNDER_RACE)

# Many tests of the first call wait for other processes, so more of them run at once than the
# machine has cores, and the slowest packages start first. The page's tests start Chromium. The
# documents' test runs the commands shown there, which use curl, openssl and psql. With strace tests
# record what a process writes, and let its syncs fail. Without GORACE each package would pause for a
# second at its end.
test: build client
	cd $(CLIENT) && npm test
	cd web && npm test
	. ./scripts/need && need chromium chromium fonts-dejavu-core && need curl curl && need openssl openssl && need psql postgresql-client && need strace strace
	$(TEST_AS_BUILT) -timeout=40m -parallel=3 $(WITHOUT_RACE)
	GORACE=atexit_sleep_ms=50 $(TEST) -timeout=20m $(RACE) $(UNDER_RACE)
	$(TEST_AS_BUILT) -count=1 -timeout=20m -run '^($(TESTS_OF_TAGGED))$$' $(addprefix ./,$(sort $(dir $(TAGGED))))
	$(TEST_AS_BUILT) -run '^$$' -bench . -benchtime 1x -skip '$(LONG_BENCHMARKS)' $(BENCHMARKED)

# Prettier leaves lines long that it can't break, and does not know WXML.
SHORT_LINES = $(foreach kind,js css html,$(wildcard web/page/*.$(kind) web/console/*.$(kind))) \
	$(foreach kind,js wxml wxss,$(wildcard $(foreach folder,. parts pages/*,$(MINIPROGRAM)/$(folder)/*.$(kind))))

lint:
	$(PRETTIER) --check web clients
	@! LC_ALL=C.UTF-8 grep -nE '.{121}' $(SHORT_LINES) || { echo "lines of more than 120 characters"; exit 1; }
	$(GOLANGCI_LINT) run --allow-parallel-runners ./...

generate: client
	$(GO) generate ./...
	cd web && npm run vendor
	cd $(CLIENT) && npm run generate && node build.mjs ../../web/page/vendor/stepboard.js
	cd $(CLIENT) && node build.mjs ../../$(MINIPROGRAM)/vendor/stepboard.js miniprogram

format:
	$(PRETTIER) --write web clients
	$(GOLANGCI_LINT) fmt

pictures: build
	. ./scripts/need && need chromium chromium fonts-dejavu-core
	TEST_BINARY=$(CURDIR)/stepboard PICTURES=$(CURDIR)/docs/images $(GO) test -count=1 -run '^TestPictures$$' ./web/browser

sbom: build
	$(GO) run ./scripts/sbom stepboard web/package-lock.json >stepboard.cdx.json

licenses: build
	$(GO) run ./scripts/licenses stepboard web/page/vendor/LICENSE.* >THIRD_PARTY_LICENSES

vulncheck:
	$(GO) tool -modfile=tools/govulncheck/go.mod govulncheck ./...

FUZZTIME ?= 3s

fuzz:
	GO=$(GO) scripts/fuzz $(FUZZTIME)

soak: build
	. ./scripts/need && need strace strace
	$(MAKE) fuzz FUZZTIME=1m
	SOAK=1 $(TEST) -count=1 -timeout=3h -run Soak ./...
	$(TEST) -count=1 -timeout=3h $(RACE) ./...

bench:
	scripts/with-servers $(GO) run ./bench

release-check:
	scripts/release-check

release:
	scripts/release
