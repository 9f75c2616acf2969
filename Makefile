SHELL := /bin/bash
.SHELLFLAGS := -euo pipefail -c
.DEFAULT_GOAL := help

# The first Python that is new enough; `make PYTHON=/path/to/python3.12 …` chooses another.
PYTHON ?= $(firstword $(foreach p,python3 python3.13 python3.12 python3.11,$(if $(shell $(p) -c 'import sys; sys.exit(sys.version_info < (3, 11))' >/dev/null 2>&1 && echo yes),$(p))))
VENV := .venv
BIN := $(VENV)/bin
READY := $(VENV)/.ready
BENCH_VENV := .venv-bench
LOCK := $(BIN)/uv pip compile --quiet --universal --generate-hashes --no-emit-index-url --no-annotate --no-header --python-version 3.11
COMPILE := $(LOCK) pyproject.toml

.PHONY: help
help: ## Show this list
	@grep -hE '^[a-z-]+:.*## ' $(MAKEFILE_LIST) | awk -F ':.*## ' '{printf "  make %-15s %s\n", $$1, $$2}'

.PHONY: demo
demo: $(READY) ## Watch an embedded cluster lose a node: DEMO="--seconds 30" passes options
	@$(BIN)/defib demo $(DEMO)

.PHONY: test
test: packages check ## Everything: make check, the contracts and the end-to-end tests on a real control plane
	@$(BIN)/python -m testbed build || [ "$${CI:-}" != true ]  # without it, those tests skip, and say so
	@$(BIN)/python -m testbed build --helm || [ "$${CI:-}" != true ]
	@$(BIN)/pytest -q -n 2 tests/flows tests/hostile tests/limits --durations=5
	@$(BIN)/pytest -q -n 3 --dist loadfile --no-loadscope-reorder tests/e2e tests/contract tests/security tests/browser tests/testbed --durations=15  # most of it is waiting; end-to-end first, as it has the longest files
	@$(MAKE) --no-print-directory audit

.PHONY: packages
packages: $(READY) ## The Debian packages that tests need: installed where they are missing and that is possible
	@$(BIN)/python -m testbed.packages || [ "$${CI:-}" != true ]  # without them, their tests skip, and say so

.PHONY: check
check: $(READY) ## The inner loop, some six minutes on two cores: lint, types, import contracts, unit, property, model and tidy tests
	@$(BIN)/ruff format --check --quiet . || { echo "make format puts this right"; exit 1; }
	@$(BIN)/ruff check --quiet .
	@$(BIN)/mypy
	@$(BIN)/lint-imports --no-logo
	@$(BIN)/pytest -q -n 2 tests/unit tests/property tests/models tests/tidy --durations=5

.PHONY: audit
audit: $(READY) ## Known holes in the packages that we ship of others, where the data can be had
	@$(BIN)/python -m tests.security.dependencies audit

.PHONY: sbom
sbom: $(READY) ## What we ship of others, as CycloneDX, in build/sbom.json
	@$(BIN)/python -m tests.security.dependencies sbom build/sbom.json

.PHONY: format
format: $(READY) ## Format the code and mend what the linter can mend
	@$(BIN)/ruff format .
	@$(BIN)/ruff check --fix .

HISTORIES ?= 200000
SEEDS ?= 1-10000
MINUTES ?= 30
.PHONY: soak
soak: $(READY) ## Much more than make test has time for, an hour and a half: HISTORIES=200000 SEEDS=1-10000 MINUTES=30
	@HISTORIES=$(HISTORIES) $(BIN)/pytest -q -n 2 tests/property/test_election.py tests/property/test_shards.py
	@$(BIN)/python -m tests.simulation --seeds $(SEEDS)
	@$(BIN)/python -m tests.simulation --series self-fence --seeds 1-3000
	@HOSTILE_EXAMPLES=20000 $(BIN)/pytest -q -n 2 tests/hostile
	@LIMIT_DAYS=21 $(BIN)/pytest -q tests/limits/test_flat_for_weeks.py
	@FALSE_ALARM_HOURS=24 FALSE_ALARM_NODES=1000 $(BIN)/pytest -q -n 2 tests/property/test_false_alarms.py
	@$(BIN)/python -m testbed build
	@$(BIN)/python -m tests.chaos --minutes $(MINUTES)

NODES ?= 5
.PHONY: cluster
cluster: $(READY) ## A real control plane with hollow nodes for you, until Ctrl-C: NODES=50
	@$(BIN)/python -m testbed up --nodes $(NODES)

.PHONY: bench
bench: $(READY) $(BENCH_VENV)/.ready ## CPU, memory and speed on the real API server, beside other clients: PARTS="watching leases agents remediating moving draining handover sharing asking page growth"
	@$(BIN)/python -m testbed build
	@$(BIN)/python -m tests.bench $(if $(PARTS),--parts $(PARTS))

PROFILE ?= default
.PHONY: bench-failover
bench-failover: $(READY) ## Seconds from a lost node to pods running elsewhere, without Defib and with it, in some hours: MODES="defib defib-standard defib-fast" RUNS=5 SEED=7 FAULTS=partition PROFILE=compressed
	@$(BIN)/python -m testbed build
	@$(BIN)/python -m tests.bench_failover --profile $(PROFILE) $(if $(MODES),--modes $(MODES)) $(if $(RUNS),--runs $(RUNS)) $(if $(SEED),--seed $(SEED)) $(if $(FAULTS),--faults $(FAULTS))

.PHONY: bench-load
bench-load: $(READY) ## What 1,000 hollow nodes with 5,000 pods cost beside a real control plane
	@$(BIN)/python -m testbed build
	@$(BIN)/python -m testbed.load

.PHONY: docs
docs: $(READY) ## Write the reference from the code, and build the documentation as a site in build/site
	@$(BIN)/python -m docs.generate
	@NO_MKDOCS_2_WARNING=1 $(BIN)/mkdocs build --strict  # what it would tell of itself: docs/decisions/0017-a-site-that-asks-nobody.md

.PHONY: render
render: $(READY) ## Write deploy/install.yaml, deploy/observe.yaml and the page of rights from the chart
	@$(BIN)/python -m testbed.chart

.PHONY: setup
setup: $(READY) ## Make the virtual environment (the others do it by themselves)

.PHONY: lock
lock: $(READY) ## Write the locked dependencies anew
	$(COMPILE) --extra ipmi --extra otel --extra tooz -o requirements.lock
	$(COMPILE) --extra otel --extra tooz --group dev -o requirements-dev.lock
	echo 'hatchling>=1.27' | $(LOCK) --constraint requirements-dev.lock -o requirements-build.lock -
	$(COMPILE) --group bench -o requirements-bench.lock

.PHONY: clean
clean: ## Remove what was made in the checkout (the control plane's build cache stays)
	@rm -rf $(VENV) $(BENCH_VENV) build dist .mypy_cache .ruff_cache .pytest_cache .hypothesis .import_linter_cache

$(READY): requirements-dev.lock pyproject.toml
	@test -n "$(PYTHON)" || { echo "Defib needs Python 3.11 or newer; install it, or name one: make PYTHON=/path/to/python3"; exit 1; }
	@echo "Setting up $(VENV) (about a minute, once) ..."
	@$(PYTHON) -m venv $(VENV)
	@$(BIN)/pip install --quiet --disable-pip-version-check --require-hashes -r requirements-dev.lock
	@$(BIN)/pip install --quiet --disable-pip-version-check --no-deps --no-build-isolation -e .
	@touch $@

$(BENCH_VENV)/.ready: requirements-bench.lock
	@echo "Setting up $(BENCH_VENV) with the other clients (once) ..."
	@$(PYTHON) -m venv $(BENCH_VENV)
	@$(BENCH_VENV)/bin/pip install --quiet --disable-pip-version-check --require-hashes -r requirements-bench.lock
	@touch $@
