# `make` lists the targets. Each installs what it lacks and Debian or the Go and
# npm registries have; only Go, Node and make must be there.

GOLANGCI_LINT_VERSION := v2.15.0
GAZELLE_VERSION := v0.53.0
BUILDIFIER_VERSION := v0.0.0-20260904073137-eaa4d125b423

# Other people's services that ours is measured beside; nothing of them is linked.
RATELIMIT_VERSION := v1.4.1-0.20260122083618-3fb702589d36
GUBERNATOR_VERSION := v2.13.0

# What is slow to make, and no part of the tree.
export SHIPLANE_CACHE ?= $(or $(XDG_CACHE_HOME),$(addsuffix /.cache,$(HOME)),$(TMPDIR),/tmp)/shiplane-limits
TOOLS := $(SHIPLANE_CACHE)/tools/$(shell go env GOVERSION)

GOLANGCI_LINT := $(TOOLS)/golangci-lint-$(GOLANGCI_LINT_VERSION)
GAZELLE := $(TOOLS)/gazelle-$(GAZELLE_VERSION)
BUILDIFIER := $(TOOLS)/buildifier-$(BUILDIFIER_VERSION)
RATELIMIT := $(TOOLS)/ratelimit-$(RATELIMIT_VERSION)
GUBERNATOR := $(TOOLS)/gubernator-$(GUBERNATOR_VERSION)
BUF := tools/buf/node_modules/.bin/buf
WEB := web/node_modules/.package-lock.json
TOFU := $(TOOLS)/tofu-v1.12.6
AWS_SCHEMA := $(SHIPLANE_CACHE)/tools/aws-schema-6.66.0.json
WEB_BIN := web/node_modules/.bin

# Files of the tree, committed or about to be.
files = $(wildcard $(shell git ls-files --cached --others --exclude-standard -- $(1)))

# Packages whose tests run once more under the race detector, but for the README's,
# which types commands: the programs that these start have no detector.
RACE ?= $(shell go list ./libs/... ./gateway/... ./checker/... ./rules/... ./client/... ./dev/internal/... | grep -v -e /libs/testenv -e /rules/internal/pgstore)

.DEFAULT_GOAL := help

.PHONY: help
help: ## list the targets
	@awk -F ':.*## ' '/^[a-z-]+:.*## / {printf "  make %-19s %s\n", $$1, $$2}' $(MAKEFILE_LIST)

.PHONY: run
run: ## build and run the gateway with its embedded defaults (ARGS="--help" for its flags)
	go build -o bin/gateway ./gateway/cmd/gateway
	@exec bin/gateway $(ARGS)

.PHONY: run-checker
run-checker: ## build and run the checker (ARGS="--rules FILE", ARGS="--help" for its flags)
	go build -o bin/checker ./checker/cmd/checker
	@exec bin/checker $(ARGS)

.PHONY: dev
dev: ## run the whole system on this machine: three regions, until Ctrl-C (ARGS="--shards 16", ARGS="--help"; docs/dev.md)
	@tools/apt.sh redis-server=redis-server /usr/lib/postgresql=postgresql
	go build -o bin/ ./gateway/cmd/gateway ./checker/cmd/checker ./rules/cmd/rules ./dev/cmd/dev
	@exec bin/dev up $(ARGS)

.PHONY: test
test: test-web ## vet and test everything, libs, gateway and checker also under the race detector
	@tools/apt.sh gcc=gcc /usr/include/stdlib.h=libc6-dev redis-server=redis-server /usr/lib/postgresql=postgresql pgbouncer=pgbouncer
	go vet ./...
	go test -vet=off -timeout 10m ./...
	CGO_ENABLED=1 go test -race -timeout 10m -skip '^TestReadmeDoesWhatItShows$$' $(RACE)

.PHONY: test-web
test-web: $(WEB) ## compile and test the TypeScript, against a real checker from a real browser
	@tools/apt.sh chromium=chromium
	go build -o bin/checker ./checker/cmd/checker
	@rm -rf web/client/dist
	$(WEB_BIN)/tsc -p web/client
	node --test --test-reporter=spec web/client/dist/test/*.test.js

.PHONY: lint
lint: $(GOLANGCI_LINT) $(BUF) $(WEB) ## golangci-lint, buf lint and breaking, go mod tidy, shellcheck, biome
	@tools/apt.sh shellcheck=shellcheck
	$(GOLANGCI_LINT) run ./...
	$(BUF) lint proto
	$(BUF) format --diff --exit-code proto
	tools/buf/breaking.sh
	go mod tidy -diff
	shellcheck $(call files,'*.sh' .ci/run)
	cd web && node_modules/.bin/biome ci --error-on-warnings .

.PHONY: fuzz
fuzz: ## run each fuzz test for FUZZTIME (60s)
	tools/fuzz.sh

.PHONY: bench
bench: ## run the benchmarks, and a flood of ten million keys
	go test -run '^$$' -bench . -benchmem ./perf/bench
	go test -run Flood -v ./perf/bench -long

.PHONY: sim
sim: ## play every scenario of the simulator; fails where one falls short (ARGS="-html sim.html")
	go run ./perf/sim/cmd/sim $(ARGS)

.PHONY: script-cost
script-cost: ## count what a check costs the Redis server; fails above the budget
	@tools/apt.sh redis-server=redis-server valgrind=valgrind
	go run ./perf/scriptcost/cmd/scriptcost

.PHONY: failover
failover: ## a primary dies under load: the timeline, also drawn in bin/failover.html (ARGS="--mode freeze --node-timeout 15s")
	@tools/apt.sh redis-server=redis-server
	@mkdir -p bin
	go run ./perf/failover/cmd/failover --html bin/failover.html $(ARGS)

.PHONY: redis-throughput
redis-throughput: ## calls a second of one process against one primary, beside bare pipelines and other limiters
	@tools/apt.sh redis-server=redis-server
	go run ./perf/redisbench/cmd/redisbench throughput $(ARGS)

.PHONY: peers
peers: $(RATELIMIT) $(GUBERNATOR) ## the checker beside envoyproxy/ratelimit and gubernator: decisions a second, processor time of each
	@tools/apt.sh redis-server=redis-server
	go build -o bin/checker ./checker/cmd/checker
	go run ./perf/peers/cmd/peers --ratelimit $(RATELIMIT) --gubernator $(GUBERNATOR) $(ARGS)

.PHONY: redis-memory
redis-memory: ## bytes of Redis by account and by login, a million of each
	@tools/apt.sh redis-server=redis-server
	go run ./perf/redisbench/cmd/redisbench memory $(ARGS)

.PHONY: soak
soak: ## an outage of 60 s at full load, then 10 minutes of rule edits: memory, goroutines and connections flat
	@tools/apt.sh redis-server=redis-server
	go run ./perf/failover/cmd/failover soak --scale 8 $(ARGS)

.PHONY: latency
latency: ## what the limiter adds to a request: the gateway with it and without, in turn
	go run ./perf/latency/cmd/latency $(ARGS)

.PHONY: real
real: ## eight processes as pods on a real cluster, beside the simulator on the same arrivals
	@tools/apt.sh redis-server=redis-server
	go run ./perf/real/cmd/real $(ARGS)

.PHONY: edge
edge: ## what the internet does to a gateway and a checker: gigabytes, idle connections, slow and hostile clients
	go build -o bin/ ./gateway/cmd/gateway ./checker/cmd/checker
	go run ./perf/edge/cmd/edge $(ARGS)

.PHONY: bazel
bazel: ## build and test everything with Debian's Bazel 4.2.3; of the tests that start servers, the store's contract
	@tools/apt.sh redis-server=redis-server bazel-4=bazel-bootstrap /usr/share/bazel/tools/skylib=bazel-skylib g++=g++
	tools/bazel4/bazel.sh test --noshow_progress --test_tag_filters=-integration //...
	tools/bazel4/bazel.sh test --noshow_progress --test_filter=TestContract //libs/store/rediscluster:rediscluster_test

.PHONY: verify-infra
verify-infra: $(AWS_SCHEMA) ## validate, test, plan and apply infra/terraform against the true schema, without a cloud (TERRAFORM=PATH of the one to use)
	go -C tools/infra/schemaprovider build -trimpath -o $(CURDIR)/bin/schemaprovider .
	cli=$$(tools/infra/cli.sh $(TOFU)) && go run ./tools/infra -cli "$$cli" -provider bin/schemaprovider -schema $(AWS_SCHEMA)
	SHIPLANE_INFRA_PLANS=$(CURDIR)/bin/infra/plans go test -count=1 ./tools/infra/policy

.PHONY: verify-infra-cached
verify-infra-cached: ## verify-infra, where it was run before and its parts are there; from nothing it takes minutes more
	@if [ -e $(AWS_SCHEMA) ]; then $(MAKE) verify-infra; else echo "left out: make verify-infra has not been run here; the tests hold its fast part"; fi

.PHONY: verify-images
verify-images: ## run the Dockerfile's own build line for amd64 and arm64, on what .dockerignore leaves (minutes)
	go test -timeout 40m ./infra/docker -compile

.PHONY: ci
ci: ## all that continuous integration checks
	.ci/run

# Compiles the protos into Go under the folder $(1).
PROTOS = $(patsubst proto/%,%,$(sort $(shell find proto -name '*.proto')))
define protogen
	go build -o bin/ ./tools/protogen google.golang.org/protobuf/cmd/protoc-gen-go connectrpc.com/connect/cmd/protoc-gen-connect-go
	bin/protogen -I proto -o $(1) \
		-plugin bin/protoc-gen-go=paths=source_relative \
		-plugin bin/protoc-gen-connect-go=paths=source_relative,package_suffix,simple \
		$(PROTOS)
endef

# Compiles the protos that scripts call into TypeScript under the folder $(1).
define protogen-web
	bin/protogen -I proto -o $(1) -plugin $(WEB_BIN)/protoc-gen-es=target=ts,import_extension=ts shiplane/check/v1/check.proto
endef

.PHONY: generate
generate: $(WEB) ## write the Go and the TypeScript of the protos
	$(call protogen,proto)
	$(call protogen-web,web/client/src/gen)

.PHONY: verify-generated
verify-generated: $(WEB) ## fail if the code of the protos is not what generate would write
	@rm -rf bin/.generated bin/.generated-web
	$(call protogen,bin/.generated)
	$(call protogen-web,bin/.generated-web)
	diff -r --exclude='*.proto' --exclude=buf.yaml --exclude=BUILD.bazel proto bin/.generated
	diff -r web/client/src/gen bin/.generated-web

.PHONY: build-files
build-files: $(GAZELLE) $(BUILDIFIER) ## write go.mod, the BUILD files and MODULE.bazel's use_repo
	go mod tidy
	tools/build-files.sh
	$(GAZELLE) -external=static -mode=fix
	go run ./tools/modcheck -fix
	$(BUILDIFIER) $(call files,'*.bazel' '*.bzl' WORKSPACE)

.PHONY: verify-build-files
verify-build-files: $(GAZELLE) $(BUILDIFIER) ## fail if the BUILD files are not what build-files would write
	$(GAZELLE) -external=static -mode=diff
	$(BUILDIFIER) -mode=check $(call files,'*.bazel' '*.bzl' WORKSPACE)
	go run ./tools/modcheck

# Programs, each built once a version of it and of Go.

$(GOLANGCI_LINT): PACKAGE = github.com/golangci/golangci-lint/v2/cmd/golangci-lint@$(GOLANGCI_LINT_VERSION)
$(GAZELLE): PACKAGE = github.com/bazelbuild/bazel-gazelle/cmd/gazelle@$(GAZELLE_VERSION)
$(BUILDIFIER): PACKAGE = github.com/bazelbuild/buildtools/buildifier@$(BUILDIFIER_VERSION)
$(RATELIMIT): PACKAGE = github.com/envoyproxy/ratelimit/src/service_cmd@$(RATELIMIT_VERSION)
$(GUBERNATOR): PACKAGE = github.com/gubernator-io/gubernator/v2/cmd/gubernator@$(GUBERNATOR_VERSION)
$(GOLANGCI_LINT) $(GAZELLE) $(BUILDIFIER) $(RATELIMIT) $(GUBERNATOR):
	@mkdir -p $@.d
	GOFLAGS= GOBIN=$@.d go install $(PACKAGE)
	@mv $@.d/* $@ && rmdir $@.d

$(AWS_SCHEMA): tools/infra/schema.sh tools/infra/extract.js tools/infra/types.txt
	tools/infra/schema.sh $@

$(WEB): web/package-lock.json
	npm ci --prefix web --ignore-scripts --no-audit --no-fund
	@touch $@

$(BUF): tools/buf/package-lock.json
	npm ci --prefix tools/buf --ignore-scripts --no-audit --no-fund
	@touch $@
