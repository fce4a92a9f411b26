# All that a contributor runs. Everything is installed into .venv, once for each pyproject.toml.

PYTHON ?= python3
# Installed before the rest, since an open range may bring gigabytes of GPU libraries.
# After changing it: make clean.
TORCH ?= torch==2.13.0

# What must hold whatever instructions a processor has: the test files that have a tolerance; and of these what adds up
# in parallel.
TOLERANCE := approx\(|allclose\(|assert_close\(|isclose\(|tests\.rounding|[ar]tol=
with_tolerance = $(shell grep -rlE --include='test_*.py' '$(TOLERANCE)' $(1) | xargs grep -LE '^pytestmark.*foreign' | sort)
NUMERICS = $(call with_tolerance,$(addprefix tests/,parity properties unit/analysis unit/decoding unit/model unit/tasks \
	unit/tracing unit/training unit/views unit/weights))
THREADED = $(call with_tolerance,$(addprefix tests/,parity unit/decoding unit/model unit/tracing))
# Names every version with its SHA-256 sums, and nothing else is installed: make test LOCK=requirements/ci.txt
LOCK ?=
# What the tests run exported models in, under Node.
TRANSFORMERS_JS ?= @huggingface/transformers@4.3.1
# Clients of the server.
CLIENTS ?= deepl-node@1.28.0 openai@6.49.0
# What reads the types in the viewer's comments.
TYPESCRIPT ?= typescript@5.9.3
AXE ?= axe-core@4.14.1

VENV := .venv
BIN := $(VENV)/bin
PIP := $(BIN)/python -m pip install -qq --disable-pip-version-check
# Tests start many processes: each would compile all that it imports anew.
unexport PYTHONDONTWRITEBYTECODE

.DEFAULT_GOAL := help
.PHONY: help install demo test numerics slow foreign browser course notebooks docs dist viewer check lint types format bench clean
.DELETE_ON_ERROR:

help:  ## show this list
	@echo "usage: make TARGET [PYTHON=$(PYTHON)] [TORCH=$(TORCH)]"
	@awk -F ':.*## ' '/^[a-z]+:.*## / { printf "  %-9s %s\n", $$1, $$2 }' $(firstword $(MAKEFILE_LIST))

install: $(VENV)/.core  ## install Pellucid into .venv

demo: $(VENV)/.core  ## train a small model and show what it does
	$(BIN)/pellucid demo

test: $(VENV)/.dev  ## run the tests (about 3 minutes)
	$(BIN)/python -m pytest -n auto --dist worksteal

numerics: $(VENV)/.dev  ## run the tests of arithmetic as other processors, threads and seeds would
	ATEN_CPU_CAPABILITY=default OMP_NUM_THREADS=1 $(BIN)/python -m pytest -n auto --dist worksteal $(NUMERICS) --randomly-seed=1
	ATEN_CPU_CAPABILITY=avx2 OMP_NUM_THREADS=2 $(BIN)/python -m pytest -n auto --dist worksteal $(THREADED) --randomly-seed=2910863370

slow: $(VENV)/.dev  ## run the slow tests
	$(BIN)/python -m pytest -n auto --dist worksteal -m "slow and not foreign and not browser"

foreign: $(VENV)/.foreign  ## run the tests that compare with other people's libraries
	$(BIN)/python -m pytest -n auto --dist worksteal -m foreign

browser: $(VENV)/.browser  ## run the tests of the viewer in Chromium
	$(BIN)/python -m pytest -n auto --dist loadfile -m browser

course: $(VENV)/.dev  ## run all lessons of the course, the long trainings included
	$(BIN)/python docs/lessons.py

notebooks: $(VENV)/.docs  ## write the lessons as notebooks into build/notebooks
	$(BIN)/python docs/lessons.py notebooks

docs: $(VENV)/.docs  ## build the documentation as a site into build/site
	$(BIN)/sphinx-build -M html . build/site -c docs --fail-on-warning --quiet
	@echo "open build/site/html/index.html"

dist: $(VENV)/.dist  ## build sdist, wheel and SBOM into dist, and check them
	$(BIN)/python packaging/make_dist.py

viewer:  ## minify the viewer's sources into the package (esbuild)
	@command -v esbuild >/dev/null || { echo "error: esbuild is missing (Debian: apt-get install esbuild)" >&2; exit 1; }
	viewer/build.sh

check: lint types test  ## all that must pass before a change: format, lint, types, tests

lint: $(VENV)/.dev  ## check format, style, names, messages and imports
	$(BIN)/ruff format --check
	$(BIN)/ruff check
	$(BIN)/python tests/project/lint.py

types: $(VENV)/.types  ## check the types, as mypy and pyright read them
	$(BIN)/mypy
	$(BIN)/python -m pytest -m types

format: $(VENV)/.dev  ## rewrite the code in the project's format
	$(BIN)/ruff format
	$(BIN)/ruff check --fix

bench: $(VENV)/.bench  ## measure training and decoding speed
	$(BIN)/python benchmarks/training_speed.py
	$(BIN)/python benchmarks/decoding_speed.py

clean:  ## remove .venv and caches
	rm -rf $(VENV) build dist src/*.egg-info .pytest_cache .hypothesis .mypy_cache .ruff_cache

# The stamps form a chain, so that `make -j` never runs two installations at once.
$(VENV)/.core: pyproject.toml
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11) and "error: Python %d.%d is too old, Pellucid needs 3.11 or later\nhint: make PYTHON=python3.12 ..." % sys.version_info[:2])'
	@test -x $(BIN)/pip || $(PYTHON) -m venv $(VENV)
	@echo "installing $(TORCH) and Pellucid into $(VENV) (some minutes the first time)"
	@$(PIP) --upgrade "pip>=25.1"  # the first that knows dependency groups
	@$(PIP) "$(TORCH)"
	@$(if $(LOCK),$(PIP) --require-hashes -r $(LOCK),:)
	@$(PIP) --editable .
	@touch $@

$(VENV)/.dev: $(VENV)/.core
	@echo "installing what the tests need into $(VENV)"
	@$(PIP) --editable . --group dev
	@touch $@

$(VENV)/.types: $(VENV)/.dev
	@echo "installing what checks the types into $(VENV)"
	@$(PIP) --group types
	@touch $@

$(VENV)/.foreign: $(VENV)/.dev
	@echo "installing other people's libraries into $(VENV)"
	@# Most of their modules are never imported, and the others are compiled then.
	@$(PIP) --no-compile --editable ".[hf,verify,ct2,fast,onnx,zst,parquet,ray,langid,tensorboard,mcp]" --group foreign
	@command -v npm >/dev/null || { echo "error: npm is missing (Debian: apt-get install nodejs npm)" >&2; exit 1; }
	@npm install --silent --no-audit --no-fund --ignore-scripts --prefix $(VENV)/js $(TRANSFORMERS_JS) $(CLIENTS)
	@touch $@

$(VENV)/.browser: $(VENV)/.dev
	@echo "installing what drives a browser into $(VENV)"
	@$(PIP) --group browser
	@command -v npm >/dev/null || { echo "error: npm is missing (Debian: apt-get install nodejs npm)" >&2; exit 1; }
	@npm install --silent --no-audit --no-fund --ignore-scripts --prefix $(VENV)/js $(TYPESCRIPT) $(AXE)
	@touch $@

$(VENV)/.bench: $(VENV)/.dev
	@echo "installing what is measured against into $(VENV)"
	@$(PIP) --group bench
	@touch $@

$(VENV)/.docs: $(VENV)/.core
	@echo "installing what builds the site into $(VENV)"
	@$(PIP) --group docs
	@touch $@

$(VENV)/.dist: $(VENV)/.core
	@echo "installing what builds distributions into $(VENV)"
	@$(PIP) --group dist
	@touch $@
