# make test needs Go with a C compiler, for the race detector. It finds or
# installs Redis and Postgres, starts its own, and stops them.

GO ?= go
LINT = $(GO) tool -modfile=tools/go.mod golangci-lint

.PHONY: build test lint soak bench

build:
	CGO_ENABLED=0 $(GO) build -trimpath -o stepboard .

test:
	scripts/with-servers scripts/test

lint:
	$(LINT) run ./...

# The long kill and load tests; make test runs a few rounds of each.
soak:
	SOAK=1 scripts/with-servers $(GO) test -race -count=1 -timeout=2h -run Soak ./...

# Rates and ratios, as in docs/performance.md: a few minutes of both cores.
bench:
	scripts/with-servers $(GO) run ./bench
