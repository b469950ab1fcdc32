# Two commands matter to a newcomer: `make demo` and `make test`. `make help` lists the rest.
SHELL := bash
.SHELLFLAGS := -euo pipefail -c
.DEFAULT_GOAL := help
MAKEFLAGS += --no-print-directory

GOLANGCI_LINT := go run github.com/golangci/golangci-lint/v2/cmd/golangci-lint@v2.15.0
CONTROLLER_GEN := go run sigs.k8s.io/controller-tools/cmd/controller-gen@v0.23.0
MODULES := . hack/cluster hack/image hack/licences hack/promcheck hack/release
FUZZTIME ?= 20s
# One set of build flags everywhere, so that images, demo and linter share what they compile. The race detector needs cgo.
export CGO_ENABLED := 0
export GOFLAGS := $(GOFLAGS) -trimpath
# How many test packages run at once. Several hold an API server each, and most of their time they wait.
PARALLEL ?= 3

.PHONY: help
help: ## list the targets
	@sed -n 's/^\([a-z0-9-]*\):.*## \(.*\)/\1\t\2/p' Makefile | column -t -s $$'\t'

.PHONY: demo demo-down
demo: setup ## the main job on a real cluster: work delivered to a standing goose (root; MODEL=env for a real model)
	@MODEL="$(MODEL)" go run ./test/demo

demo-down: cluster-down ## remove everything the demo made

# What tests exposed to Prometheus, for hack/promcheck.
EXPOSITION := $(or $(XDG_CACHE_HOME),$(HOME)/.cache)/hearth/exposition

# The programs that tests build are built as everywhere else, without cgo: with it all that they link would be compiled once more. What
# vet finds, `make lint` finds, for all packages and once.
ORDINARY := -vet=off -shuffle=on -timeout 15m
RACED := -race $(ORDINARY) -exec 'env CGO_ENABLED=0'

# Where our programs run as processes of their own there is nothing for the race detector but the tests: it would only slow them down.
PROCESSES := /(cmd/harness|examples|hack|test)(/|$$)
# Not with them: it measures what others get meanwhile.
ALONE := /test/hostile$$
# These serve in their own process too, so both ways; and those that take longest begin, for nothing to be waited for alone at the end.
RACES := /test/conformance$$
LONGEST := /(controller/deliver|runtime/standing)$$
# What the race detector would distort in the other packages. What these few expose would replace what their packages' whole runs did.
DISTORTED := CostsLittleMemory|ALineOf64MiB

.PHONY: test
test: setup envtest-assets ## all tests but end-to-end: unit, real API server, real goose, real browser
	@hack/setup.sh browser
	@rm -rf $(EXPOSITION)
	@assets=$$(hack/cluster/cluster assets); goose=$$(hack/goose/install.sh); peers=$$(test/peers/install.sh); helm=$$(hack/helm/install.sh); all=$$(go list ./...); \
	export KUBEBUILDER_ASSETS=$$assets HEARTH_GOOSE=$$goose HEARTH_PEERS=$$peers HEARTH_HELM=$$helm HEARTH_EXPOSITION=$(EXPOSITION) HEARTH_REQUIRE_REAL=1; \
	CGO_ENABLED=1 go test $(RACED) -p $(PARALLEL) $$(grep -E '$(RACES)|$(LONGEST)' <<<"$$all") $$(grep -vE '$(PROCESSES)' <<<"$$all"); \
	go test $(ORDINARY) -p $(PARALLEL) $$(grep -E '$(RACES)' <<<"$$all") $$(grep -E '$(PROCESSES)' <<<"$$all" | grep -vE '$(ALONE)'); \
	go test $(ORDINARY) -count=1 $$(grep -E '$(ALONE)' <<<"$$all"); \
	HEARTH_EXPOSITION= go test $(ORDINARY) -count=1 -run '$(DISTORTED)' ./controller/deliver ./controller/record ./cli/connect ./delivery/server ./runtime/attach
	@CGO_ENABLED=1 go -C hack/cluster test $(RACED) ./...
	@for m in hack/image hack/licences hack/promcheck hack/release; do HEARTH_EXPOSITION=$(EXPOSITION) go -C $$m test -vet=off -shuffle=on ./...; done # nothing runs beside anything else there, and what they link is large

.PHONY: e2e
e2e: setup ## end-to-end tests on a real kubelet with real goose (root)
	@go test -tags e2e -count=1 -timeout 20m -parallel 4 -v ./test/e2e
	@$(MAKE) docs

.PHONY: docs
docs: setup ## every command of the documentation that is marked as run, on a real cluster (root)
	@go test -tags e2e -count=1 -timeout 20m -v -run TestTheCommandsOfTheDocumentation ./test/docs

.PHONY: faults
faults: setup envtest-assets ## every fault row against real processes (root; SHORT=-short leaves out what takes long)
	@KUBEBUILDER_ASSETS=$$(hack/cluster/cluster assets) go test -tags faults -count=1 -timeout 20m -parallel 8 $(SHORT) ./test/faults
	@KUBEBUILDER_ASSETS=$$(hack/cluster/cluster assets) go test -tags faults -count=1 -timeout 5m -v -run '^TestHungTargetsLeaveTheNextOneItsLatency$$' $(SHORT) ./controller/deliver
	@KUBEBUILDER_ASSETS=$$(hack/cluster/cluster assets) go test -tags faults -count=1 -timeout 10m $(SHORT) ./test/bench/scale

.PHONY: mutants
mutants: setup envtest-assets ## every protection taken away in turn: the tests that are named for it must be red (MUTANT= a regular expression)
	@KUBEBUILDER_ASSETS=$$(hack/cluster/cluster assets) go run ./test/faults/mutants -run '$(MUTANT)'

# How long the soak blows; what it did is settled after that.
SOAK ?= 10m
.PHONY: soak
soak: setup envtest-assets ## mixed load with random faults for SOAK=10m: a table of what was lost, doubled and held (root; SOAK_SEED repeats the steps)
	@SOAK=$(SOAK) KUBEBUILDER_ASSETS=$$(hack/cluster/cluster assets) go test -tags faults -count=1 -timeout 24h -v -run TestSoak ./test/faults/soak

.PHONY: compatibility
compatibility: setup ## write docs/compatibility.md from what all clients and agents do (HEARTH_SLOW= leaves opencode as it is)
	@goose=$$(hack/goose/install.sh); peers=$$(test/peers/install.sh); opencode=$$(test/peers/install.sh opencode); \
	HEARTH_GOOSE=$$goose HEARTH_PEERS=$$peers HEARTH_OPENCODE=$$opencode HEARTH_REQUIRE_REAL=1 HEARTH_SLOW=$${HEARTH_SLOW-1} \
	  go test -count=1 -timeout 15m -run TestCompatibility ./test/peers -update

.PHONY: latency readiness-lag
latency: setup ## print how long 50 sequential deliveries take on the cluster (root)
	@HEARTH_E2E_MEASURE=1 go test -tags e2e -count=1 -timeout 20m -v -run TestMeasureLatency ./test/e2e
readiness-lag: setup ## print how long ACPReady stays True after an agent was killed, 20 rounds (root)
	@HEARTH_E2E_MEASURE=1 go test -tags e2e -count=1 -timeout 20m -v -run TestMeasureReadinessLag ./test/e2e

.PHONY: bench bench-cold bench-scale bench-inner bench-harness
bench: setup envtest-assets ## delivery, burst, long work and fairness against what the machine can do at most; keeps the figures (ARGS="-only P1,P2 -profile DIR" tries)
	@KUBEBUILDER_ASSETS=$$(hack/cluster/cluster assets) go run ./test/bench $(or $(ARGS),-update)

bench-cold: setup ## P4: a standing goose against a Pod of the same image, on the cluster; keeps the figures (root; ARGS="-rounds 1 -keep=false" to try)
	@go run ./test/bench/cold -keep $(ARGS)

bench-scale: setup envtest-assets ## P6, P7: restart with 10,000 runs in flight, 500 and 2,000 targets, 100,000 records; keeps the figures (ARGS="-few 20 -many 40 -per-agent 10 -records 1000" tries)
	@KUBEBUILDER_ASSETS=$$(hack/cluster/cluster assets) go run ./test/bench/scale $(or $(ARGS),-keep)

# How often each inner benchmark is run; benchstat tells from that what is noise.
ROUNDS ?= 6
INNER := test/bench/results/inner.txt
bench-inner: ## the inner parts, compared with what is committed by benchstat; KEEP=1 keeps what was measured
	@new=$$(mktemp); trap 'rm -f "$$new"' EXIT; \
	go test -run '^$$' -bench . -benchtime 0.2s -count $(ROUNDS) ./pkg/delivery/v1alpha1 ./challenge ./delivery ./delivery/journal ./delivery/server ./runtime/transcript ./runtime/attach | \
	  grep -E '^(goos|goarch|pkg|cpu|Benchmark)' | tee "$$new"; \
	go run golang.org/x/perf/cmd/benchstat@v0.0.0-20260908200009-22c9c6c9d4da $(INNER) "$$new"; \
	if [ -n "$(KEEP)" ]; then cp "$$new" $(INNER); fi

bench-harness: ## P5 and P8, how long a harness takes to start, what it holds, and what its binary is made of; keeps the figures (root; ARGS=-update=false to try)
	@go run ./test/bench/harness $(or $(ARGS),-update)

.PHONY: cluster-test slow
cluster-test: setup ## a cluster comes up, serves, and leaves nothing (root; no cluster may be running)
	@HEARTH_CLUSTER_TEST=1 go -C hack/cluster test -count=1 -v -timeout 10m -run 'TestAClusterServesPodsAndLeavesNothing|TestAFailed' ./e2e

slow: setup ## what does not fit the time of every change: clusters killed at every step, every case against every wrong runtime, Helm, fuzzing (root; no cluster may be running)
	@HEARTH_CLUSTER_TEST=1 go -C hack/cluster test -count=1 -v -timeout 30m ./e2e
	@HEARTH_SLOW=1 go test -count=1 -timeout 30m -run TestAWrongRuntime ./test/conformance
	@HEARTH_SLOW=1 HEARTH_GOOSE=$$(hack/goose/install.sh) go test -count=1 -timeout 30m -run 'ByEndpoint|HugeAnswer' ./runtime/standing
	@goose=$$(hack/goose/install.sh); peers=$$(test/peers/install.sh); opencode=$$(test/peers/install.sh opencode); \
	HEARTH_GOOSE=$$goose HEARTH_PEERS=$$peers HEARTH_OPENCODE=$$opencode HEARTH_REQUIRE_REAL=1 HEARTH_SLOW=1 go test -count=1 -timeout 15m ./test/peers
	@HEARTH_SLOW=1 go test -tags e2e -count=1 -timeout 20m -v -run TestHelm ./test/e2e
	@$(MAKE) cluster-down
	@$(MAKE) fuzz release-check

.PHONY: fuzz
fuzz: ## run each fuzz target for FUZZTIME
	@FUZZTIME=$(FUZZTIME) hack/fuzz.sh

.PHONY: lint
lint: ## formatting and the linter, in every module
	@bad=$$(gofmt -l $$(git ls-files '*.go')); if [ -n "$$bad" ]; then echo "not gofmt'ed: $$bad"; exit 1; fi
	@for m in $(MODULES); do (cd $$m && $(GOLANGCI_LINT) run --allow-parallel-runners --build-tags e2e,faults ./...); done

.PHONY: generate verify
generate: ## deepcopy, CRDs and RBAC from the Go types, and from config/ what people install
	@$(CONTROLLER_GEN) object paths=./api/... paths=./controller/sandbox
	@$(CONTROLLER_GEN) crd:generateEmbeddedObjectMeta=true paths=./api/... output:crd:dir=config/crd
	@$(CONTROLLER_GEN) rbac:roleName=hearth-controller paths=./controller/... output:rbac:dir=config/rbac
	@go run ./hack/rbac config/rbac/role.yaml config/namespaced
	@go run ./hack/install manifest
	@go run ./hack/install chart
	@$(CONTROLLER_GEN) object crd paths=./examples/steps output:crd:stdout >examples/steps/config/crd.yaml

verify: ## fail if generated files or go.mod drifted, a licence is not on the list, or a known vulnerability is called
	@hack/verify.sh

.PHONY: build
build: ## the binaries, into bin/
	@go build -ldflags '-s -w' -o bin/ ./cmd/... ./test/conformance/hearth-conformance

# What images are called in the install manifest and the chart.
export REGISTRY ?= localhost
.PHONY: release release-check
release: ## everything that a release has, into dist/release (VERSION=v0.2.0, REGISTRY= where the images will be)
	@hack/release/release -version "$${VERSION:-}" -registry "$${REGISTRY:-}"

release-check: ## two releases of the same commit, made apart, are the same bytes (FRESH=1: the second compiles everything anew)
	@hack/release/check.sh $(FRESH)

.PHONY: setup
setup: ## install what tests need from Debian (nothing when it is there)
	@hack/setup.sh

.PHONY: envtest-assets cluster-up cluster-env cluster-down images images-load
envtest-assets: ## etcd and kube-apiserver for tests (no root)
	@hack/cluster/cluster assets >/dev/null
cluster-up: ## a real single-node Kubernetes on this machine (root)
	@hack/cluster/cluster up
cluster-env: ## print how a shell uses it: eval "$$(make cluster-env)"
	@echo "export KUBECONFIG=$$(hack/cluster/cluster kubeconfig) PATH=$$(hack/cluster/cluster assets):\$$PATH"
cluster-down: ## remove it and all that it made (root)
	@hack/cluster/cluster down
images: ## build the images, without a registry or daemon
	@hack/image/image build
images-load: ## build them and load them into the cluster
	@hack/image/image load
