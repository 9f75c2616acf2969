SHELL := /bin/bash
.SHELLFLAGS := -euo pipefail -c
.DEFAULT_GOAL := help

# The first Python that is new enough; `make PYTHON=/path/to/python3.12 …` chooses another.
PYTHON ?= $(firstword $(foreach p,python3.13 python3.12 python3.11 python3,$(if $(shell $(p) -c 'import sys; sys.exit(sys.version_info < (3, 11))' >/dev/null 2>&1 && echo yes),$(p))))
VENV := .venv
BIN := $(VENV)/bin

.PHONY: help
help: ## Show this list
	@grep -hE '^[a-z-]+:.*## ' $(MAKEFILE_LIST) | sort | awk -F ':.*## ' '{printf "  make %-16s %s\n", $$1, $$2}'

$(VENV)/.ready: requirements-dev.lock pyproject.toml
	@test -n "$(PYTHON)" || { echo "Defib needs Python 3.11 or newer; install it, or name one: make PYTHON=/path/to/python3"; exit 1; }
	@echo "Setting up $(VENV) (once) ..."
	@$(PYTHON) -m venv $(VENV)
	@$(BIN)/pip install --quiet --require-hashes -r requirements-dev.lock
	@$(BIN)/pip install --quiet --no-deps --no-build-isolation -e .
	@touch $@

.PHONY: setup
setup: $(VENV)/.ready ## Make the virtual environment

.PHONY: lock
lock: setup ## Write the locked dependencies anew
	$(BIN)/uv pip compile --quiet --universal --generate-hashes --no-emit-index-url --no-annotate --python-version 3.11 pyproject.toml -o requirements.lock
	$(BIN)/uv pip compile --quiet --universal --generate-hashes --no-emit-index-url --no-annotate --python-version 3.11 pyproject.toml --group dev -o requirements-dev.lock
	$(BIN)/uv pip compile --quiet --universal --generate-hashes --no-emit-index-url --no-annotate --python-version 3.11 pyproject.toml --group bench -o requirements-bench.lock
