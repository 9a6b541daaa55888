# Muster: what a developer and CI run. `make help` prints the lines marked ##.

SHELL      := /bin/bash
GO         ?= go
BIN        := bin
VERSION    ?= $(shell git describe --tags --always --dirty 2>/dev/null || echo unknown)
LINT       := $(BIN)/tools/golangci-lint
LINT_PKG   := github.com/golangci/golangci-lint/v2/cmd/golangci-lint
BENCH      ?= .
BENCH_TIME ?= 1s
BENCH_PART ?= dispatch,fanout,ingest,conns,restart,report,formats,growth,agent
BENCH_REPS ?= 5
E2E_RUN    ?= .
SEED       ?=
SOAK       ?= 1h

# The tests build the programs here once, not once a package.
export MUSTER_BIN ?= $(CURDIR)/$(BIN)/tests

.DEFAULT_GOAL := help
.PHONY: help build test race e2e chaos sim soak check fmt lint bench demo pictures docs clean

help: ## print this list
	@awk -F ':.*## ' '/^[a-z0-9-]+:.*## / {printf "  make %-8s %s\n", $$1, $$2}' $(MAKEFILE_LIST)

build: ## build broker, dispatcher and edge-agent as static programs into bin/
	CGO_ENABLED=0 $(GO) build -trimpath -ldflags "-s -w -X main.version=$(VERSION)" -o $(BIN)/ ./broker ./dispatcher ./edge-agent

# -count=1: tests that build the programs themselves would be remembered as good
# although a program has changed since.
test: ## run every test (go test ./...), the end-to-end ones included
	$(GO) test -count=1 -timeout 15m ./...

race: ## run every test under the race detector (needs a C compiler)
	$(GO) test -race -timeout 25m ./...

e2e: ## run only the end-to-end tests, each time anew: real programs, kill -9 (E2E_RUN=name picks)
	$(GO) test -count=1 -timeout 15m -run '$(E2E_RUN)' ./tests/...

chaos: ## attack it: simulated seeds, kill -9, bad links, full disks; at most 8 minutes
	MUSTER_CHAOS=full $(GO) test -count=1 -timeout 15m -run '^TestFiveHundred' ./tests/chaos/cases
	MUSTER_CHAOS=full $(GO) test -count=1 -timeout 15m -p 4 -skip '^TestFiveHundred' ./tests/chaos/... ./tests/storage/...

sim: ## repeat one simulated history (SEED=7), or try new ones
	$(GO) test -count=1 -timeout 30m -run '^TestSimulation$$' -v ./tests/chaos/sim -args -seed=$(SEED)

soak: build ## an hour of kills, cuts, full disks, restores and clock jumps (SOAK=1h); writes docs/reliability.md
	$(GO) run ./tests/chaos/soak -duration $(SOAK) -report docs/reliability.md

check: ## formatting, module files, vet and the pinned linters; changes nothing
	@unformatted="$$(gofmt -l $$(git ls-files -co --exclude-standard '*.go'))"; \
	if [ -n "$$unformatted" ]; then echo "not gofmt'ed (make fmt mends it):"; echo "$$unformatted"; exit 1; fi
	$(GO) mod tidy -diff
	$(GO) vet ./...
	@$(MAKE) --no-print-directory lint

fmt: $(LINT) ## format the Go files and sort their imports
	$(LINT) fmt ./...

lint: $(LINT) ## run the linters of .golangci.yml, as pinned in scripts/tools/go.mod
	$(LINT) run ./...

$(LINT): scripts/tools/go.mod scripts/tools/go.sum
	$(GO) build -C scripts/tools -o ../../$(LINT) $(LINT_PKG)

bench: build ## benchmarks beside the code, then whole runs, beside the peers of MUSTER_PEERS; writes docs/performance.md
	$(GO) test -run '^$$' -bench '$(BENCH)' -benchtime $(BENCH_TIME) -benchmem ./...
	$(GO) build -o $(BIN)/load ./tests/load
	$(BIN)/load bench -part $(BENCH_PART) -reps $(BENCH_REPS) -bin $(BIN) -out $(BIN)/bench-$(VERSION).jsonl -doc docs/performance.md

demo: build ## 12 stores on this machine: order, crash, refusal, absence, two revisions; about a minute
	$(GO) build -o $(BIN)/demo ./scripts/demo
	$(BIN)/demo

# Without a Chinese font, such as that of fonts-noto-cjk, they show boxes.
pictures: ## photograph the pages of a sample report in Chromium, into docs/screenshots
	$(GO) test -count=1 -run '^(TestThePageIsRead|TestTheIndexIsFiltered)' ./dispatcher/internal/report/page -args -pictures=$(CURDIR)/docs/screenshots

docs: ## write docs/protocol/index.html from asyncapi.yaml, the schemas and their examples
	$(GO) run ./scripts/asyncapi

clean: ## remove what the other targets made
	rm -rf $(BIN) demo
