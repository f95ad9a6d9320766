# Everything a contributor or CI runs. Needs Python 3.11 and, for the real API server in tests and benchmarks, Go.
SHELL := /bin/bash
.SHELLFLAGS := -eu -o pipefail -c
.DEFAULT_GOAL := help
PYTHON ?= $(shell command -v python3.11 || command -v python3)
VENV := .venv
BIN := $(VENV)/bin
INSTALLED := $(VENV)/.installed

.PHONY: help run test soak check bench conformance clean tools lock chart gotypes

help: ## list the targets
	@grep -E '^[a-z]+:.*##' $(MAKEFILE_LIST) | awk -F':.*## ' '{printf "  make %-9s %s\n", $$1, $$2}'

$(INSTALLED): requirements.lock pyproject.toml
	@echo "== creating the virtual environment in $(VENV) with $$($(PYTHON) --version)"
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11) and "Python 3.11 or newer is needed: make PYTHON=/path/to/python3.11")'
	@$(PYTHON) -m venv $(VENV)
	@echo "== installing the locked dependencies ($$(grep -c == requirements.lock) packages, hashes checked)"
	@$(BIN)/pip install --quiet --disable-pip-version-check --require-hashes -r requirements.lock
	@echo "== installing allhands itself, editable"
	@$(BIN)/pip install --quiet --disable-pip-version-check --no-deps --no-build-isolation -e .
	@touch $@

run: $(INSTALLED) ## the demo: a whole cluster, ten jobs, what happened and why
	@$(BIN)/allhands demo

tools: ## build the real control plane and helm, and get MPI and Ray, into a cache outside this tree
	@tools/build >/dev/null
	@PYTHON=$(PYTHON) tools/frameworks/install >/dev/null || echo "== without MPI and Ray: their tests will say so"

test: $(INSTALLED) tools ## every test, the real API server's too, with small N
	@echo "== running every test; the real API server's tests start their own"
	@$(BIN)/pytest -n 2 --dist loadgroup $(PYTEST_ARGS)

soak: $(INSTALLED) tools ## the same tests with large N
	@echo "== running every test with large N; this takes long"
	@ALLHANDS_SOAK=1 $(BIN)/pytest -n 2 --dist loadgroup --timeout 7200 $(PYTEST_ARGS)

check: $(INSTALLED) ## format, lint, types, import contracts, house rules
	@echo "== ruff format"; $(BIN)/ruff format --check .
	@echo "== ruff check"; $(BIN)/ruff check .
	@echo "== mypy"; $(BIN)/mypy
	@echo "== import contracts"; $(BIN)/lint-imports
	@echo "== house rules"; $(BIN)/python tools/house_rules.py

conformance: $(INSTALLED) tools ## both API servers side by side, in build/conformance.md
	@mkdir -p build
	@$(BIN)/python -m tests.conformance.report build/conformance.md && sed -n 3p build/conformance.md

bench: $(INSTALLED) tools ## the benchmark tables, as a table and as JSON
	@$(BIN)/python -m bench

lock: $(INSTALLED) ## refresh requirements.lock from pyproject.toml (needs uv in the environment)
	@$(BIN)/pip install --quiet --disable-pip-version-check uv
	@$(BIN)/uv lock --quiet --upgrade
	@$(BIN)/uv export --quiet --frozen --all-extras --all-groups --no-emit-project --no-header --no-annotate > requirements.lock
	@$(BIN)/python tools/image_locks.py

chart: $(INSTALLED) ## rewrite what the Helm chart takes from the code: kinds and rights
	@$(BIN)/python tools/chart.py

gotypes: ## rewrite what Go knows of the built-in kinds (needs Go)
	@cd tools/gotypes && go run . > ../../src/allhands/api/schema/gotypes.txt

clean: ## remove everything that make made, except the cache of tools
	rm -rf $(VENV) .pytest_cache .mypy_cache .ruff_cache .hypothesis .import_linter_cache dist build tests/.logs
	find . -name __pycache__ -type d -prune -exec rm -rf {} +
