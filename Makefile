# `make demo` and `make test` need Python 3.11 or newer and nothing else.
PYTHON ?= python3
VENV   ?= .venv
BIN    := $(VENV)/bin
DATA   ?= $(PACKWISE_DATA)
QUICK  := $(wildcard tests/test_*.py) $(addprefix tests/,answering chunking context language models retrieval sources)

.DEFAULT_GOAL := help
.PHONY: help demo quick test again check format docs integrations dist licences results bench clean

help:  ## Show what can be made
	@awk 'BEGIN {FS = ":.*## "} /^[a-z]+:.*## / {printf "  make %-12s %s\n", $$1, $$2}' $(MAKEFILE_LIST)

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

again: $(VENV)/.test  ## Run the tests that failed last time once more, one after the other
	@$(BIN)/python -m pytest --last-failed --last-failed-no-failures none

check: $(VENV)/.test  ## Lint, format and type checks
	$(BIN)/ruff check
	$(BIN)/ruff format --check
	$(BIN)/pyright
	$(BIN)/pyright --pythonplatform Windows
	$(BIN)/check-jsonschema --builtin-schema vendor.github-workflows .github/workflows/*.yml
	$(BIN)/check-jsonschema --builtin-schema vendor.github-issue-forms .github/ISSUE_TEMPLATE/[!c]*.yml
	$(BIN)/check-jsonschema --builtin-schema vendor.compose-spec compose.yaml

format: $(VENV)/.test  ## Put the code into shape
	$(BIN)/ruff check --fix
	$(BIN)/ruff format

$(VENV)/.integrations: $(VENV)/.test
	$(BIN)/python -m pip install --quiet --disable-pip-version-check -c constraints.txt -e '.[integrations]'
	@touch $@

integrations: $(VENV)/.integrations  ## Install the libraries that Packwise integrates with, for their tests

$(VENV)/.docs: $(VENV)/.test
	$(BIN)/python -m pip install --quiet --disable-pip-version-check -c constraints.txt -e '.[docs]'
	@touch $@

$(VENV)/.release: $(BIN)/python pyproject.toml constraints.txt
	$(BIN)/python -m pip install --quiet --disable-pip-version-check -c constraints.txt -e '.[release]'
	@touch $@

docs: $(VENV)/.docs  ## Build the documentation site into site/, strictly
	$(BIN)/mkdocs build --quiet --strict

dist: $(VENV)/.release  ## Build wheel and source distribution, twice, and compare them
	@scripts/build-twice $(BIN)/python

licences: $(VENV)/.demo  ## List the licences of what packwise[models] installs, and write sbom.json
	@$(BIN)/python scripts/licences.py models
	@$(BIN)/python scripts/licences.py models --sbom > sbom.json

results: $(VENV)/.test  ## Measure again what docs/results.md states: PACKWISE_DATA=folder make results
	@test -n "$(DATA)" || { echo "say where the data sets are: PACKWISE_DATA=folder make results"; exit 2; }
	$(BIN)/python benchmarks/results.py "$(DATA)" docs/results.md

bench: $(VENV)/.test  ## Compare with other libraries, each in its own environment: PACKWISE_DATA=folder make bench
	@test -n "$(DATA)" || { echo "say where the data sets are: PACKWISE_DATA=folder make bench"; exit 2; }
	$(BIN)/python benchmarks/comparison.py "$(DATA)" --again --out docs/comparison.md

clean:  ## Remove the environment and what the demo made
	rm -rf $(VENV) demo-pack
