# make build   builds ./stepboard. Needs Go.
# make check   runs the tests of every package and a short walk through the whole service,
#              against a real Redis and a real Postgres: what to run while working. Needs
#              Go, Redis and Postgres; as root on Debian it installs these two.
# make test    proves each promise once, with all tests in a few of their forms. Needs also npm's
#              registry and the programs below; as root on Debian it installs them. TEST_FORMS=N adds
#              a tenth of the other forms, and RACE_DETECTOR=yes the race detector, which needs a C
#              compiler: .ci/run does so, with the day as N, the latter every second day.
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
# make soak    runs all tests in all forms and under the race detector, and tries inputs for a
#              minute on each decoder: some hours.
# make release-check  makes a snapshot of a release for this machine in dist, and tries its archive,
#              package and chart. Needs root on Debian.
# make release  publishes the release of the tag that is checked out: see CONTRIBUTING.md.
# make bench-once  runs each small benchmark once, to see that it still does.
# make bench   measures rates and memory for some minutes, with every core.

GO ?= go
PRETTIER = npx --yes prettier@3.10.1
CLIENT = clients/typescript
MINIPROGRAM = clients/miniprogram/program
GOLANGCI_LINT = $(GO) tool -modfile=tools/golangci-lint/go.mod golangci-lint

# Gin's msgpack codec, which nothing here uses, takes half a minute to compile.
# Every go command gets this tag, so that all of them share one build cache.
export GOFLAGS := $(GOFLAGS) -tags=nomsgpack

# The race detector does not look into SQLite's C code, translated to Go, the interpreter of the scripts of
# the simulation's Redis, and the packing and checksums of copies: all stay within one goroutine, and would
# take half of all tests' time. It must look into the database's driver: a generic function that
# is compiled there without it may be the one that is linked, and hide its order from it.
RACE = -race $(foreach package,modernc.org/sqlite/lib modernc.org/libc github.com/yuin/gopher-lua/... github.com/superfly/ltx/... github.com/pierrec/lz4/... hash/crc64,-gcflags='$(package)=-race=false')

# These folders hold tests that drive other processes, or call one after another: there is
# nothing for the race detector. It looks at the tests of all other packages, except those of
# files with //go:build !race, which make thousands of calls one after another.
WITHOUT_RACE = ./clients/... ./app/e2e/... ./web/... ./bench/...
UNDER_RACE = $$($(GO) list ./... | grep -vE '^stepboard/(app/e2e|web|clients|bench)(/|$$)')
TAGGED = $(shell grep -rl --include='*_test.go' '^//go:build !race' app handlers internal services)
TESTS_OF_TAGGED = $(shell grep -hoP '^func \KTest\w+' $(TAGGED) | paste -sd'|')

# Nobody debugs these programs, and without symbols each is linked in two thirds of the time. .ci/run measures what
# the tests of each package cost.
TEST = TEST_BINARY=$(CURDIR)/stepboard scripts/with-servers $(GO) test -vet=off -ldflags='-s -w' $(if $(COSTS),-exec='$(CURDIR)/build/cost test')
# With the flags of make build, tests use what it has compiled. The race detector needs C.
TEST_AS_BUILT = CGO_ENABLED=0 $(TEST) -trimpath
TEST_FOR_RACES = CGO_ENABLED=1 $(TEST) $(RACE)

BENCHMARKED = $(addprefix ./,$(sort $(dir $(shell grep -rl --include='*_test.go' '^func Benchmark' app handlers internal services))))

.PHONY: build client programs check test lint generate format pictures sbom licenses vulncheck fuzz soak bench-once bench release-check release

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

# The page's tests start Chromium. Tests run the commands of documents and errors, which use curl, openssl, psql, jq
# and unzip. With strace tests record what a process writes, and let its syncs fail.
programs:
	. ./scripts/need && need chromium chromium fonts-dejavu-core && need curl curl && need openssl openssl && need psql postgresql-client && need strace strace && need jq jq && need unzip unzip

# Many tests wait for other processes, so more of them run at once than the machine has cores. Without GORACE
# each package under the race detector would pause for a second at its end.
test: build client programs
	cd $(CLIENT) && npm test
	cd web && npm test
	$(TEST_AS_BUILT) -timeout=40m -parallel=4 $(WITHOUT_RACE)
ifdef RACE_DETECTOR
	GORACE=atexit_sleep_ms=50 $(TEST_FOR_RACES) -timeout=20m $(UNDER_RACE)
	$(TEST_AS_BUILT) -timeout=20m -run '^($(TESTS_OF_TAGGED))$$' $(addprefix ./,$(sort $(dir $(TAGGED))))
else
	$(TEST_AS_BUILT) -timeout=20m $(UNDER_RACE)
endif

# Prettier leaves lines long that it can't break, and does not know WXML.
SHORT_LINES = $(foreach kind,js css html,$(wildcard web/page/*.$(kind) web/console/*.$(kind))) \
	$(foreach kind,js wxml wxss,$(wildcard $(foreach folder,. parts pages/*,$(MINIPROGRAM)/$(folder)/*.$(kind))))

# With the flags of make build, golangci-lint reads what that has compiled.
lint:
	$(PRETTIER) --check web clients
	@! LC_ALL=C.UTF-8 grep -nE '.{121}' $(SHORT_LINES) || { echo "lines of more than 120 characters"; exit 1; }
	CGO_ENABLED=0 GOFLAGS="$(GOFLAGS) -trimpath" $(GOLANGCI_LINT) run --allow-parallel-runners ./...

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

soak: build client programs
	$(MAKE) fuzz FUZZTIME=1m
	TEST_FORMS=all $(TEST_AS_BUILT) -count=1 -timeout=12h ./...
	TEST_FORMS=all $(TEST_FOR_RACES) -count=1 -timeout=6h $(UNDER_RACE)

# Left out are sizes that take long.
bench-once: build
	$(TEST_AS_BUILT) -run '^$$' -bench . -benchtime 1x -skip '/(100k|1M|10000000)$$|//MB=256' $(BENCHMARKED)

bench:
	scripts/with-servers $(GO) run ./bench

release-check:
	scripts/release-check

release:
	scripts/release
