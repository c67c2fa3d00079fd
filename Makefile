# The two commands of the book, and the smaller ones they are made of. `make help` lists them.
#
#   make book     builds the site; the last line is the path of its first page
#   make test     everything that CI runs
#
# Both make their own virtual environment, once: a stamp in it carries a checksum of the files that
# decide its content, so it is brought up to date when those change and not otherwise.

SHELL := /bin/bash
.SHELLFLAGS := -euo pipefail -c
.DEFAULT_GOAL := help
.DELETE_ON_ERROR:
MAKEFLAGS += --no-print-directory

PYTHON ?= python3
VENV ?= .venv
SITE := _build/html
REPORTS := _build/reports
NB ?=
URL ?=
PAGES ?=

# The environment's own programs first, in every recipe.
export PATH := $(abspath $(VENV))/bin:$(PATH)
export PIP_DISABLE_PIP_VERSION_CHECK := 1
PIP_INSTALL := python -m pip install -qq --progress-bar off

checksum = $(shell cat $(1) | cksum | cut -d' ' -f1)
BOOK_ENV := $(VENV)/.book-$(call checksum,requirements.txt pyproject.toml)
TEST_ENV := $(VENV)/.test-$(call checksum,requirements.txt requirements-test.txt pyproject.toml)

# Two workers, one core each: more threads than cores would only wait for one another.
PYTEST := OMP_NUM_THREADS=1 python -m pytest -n 2
# Cells and outputs of the Chinese edition are those of the English one, byte for byte
# (tests/test_editions.py): what runs here proves both.
NBVAL := --nbval --dist loadfile chapters/en
report = --junitxml=$(REPORTS)/$(1).xml

.PHONY: help book site test lint types unit notebooks notebooks-gpu site-tests execute sync \
  confirm-zh bench-site repository package bench clean

help:  ## this list
	@sed -nE 's/^([a-z-]+):.*## (.*)/  make \1|\2/p' $(MAKEFILE_LIST) | column -t -s '|'

# ---- environments -------------------------------------------------------------------------------

$(BOOK_ENV):
	@echo "Installing the book's environment in $(VENV) (minutes, once) ..."
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' \
	  || { echo "The book needs Python 3.11 or newer: make PYTHON=/path/to/python3.11 ..." >&2; exit 1; }
	@test -x $(VENV)/bin/python || $(PYTHON) -m venv $(VENV) \
	  || { rm -rf $(VENV); echo "$(PYTHON) cannot make a virtual environment" \
	       "(on Debian and Ubuntu: apt-get install python3-venv)." >&2; exit 1; }
	@$(PIP_INSTALL) -r requirements.txt
	@$(PIP_INSTALL) --no-deps --editable .
	@rm -f $(VENV)/.book-* && touch $@

$(TEST_ENV): $(BOOK_ENV)
	@echo "Installing what the tests need (minutes, once) ..."
	@$(PIP_INSTALL) -r requirements-test.txt
	@for device in cpu cuda; do \
	  name=dnnl-$${device/cuda/gpu}; \
	  python -m ipykernel install --sys-prefix --name $$name --display-name $$name \
	    --env DNNL_DEVICE $$device 2>/dev/null; done
	@python tools/browser.py --install
	@rm -f $(VENV)/.test-* && touch $@

# ---- the book -----------------------------------------------------------------------------------

book: $(BOOK_ENV)  ## build the site
	@$(MAKE) site
	@echo "$(abspath $(SITE))/index.html"

site: $(BOOK_ENV)
	@python tools/book.py

execute: $(BOOK_ENV)  ## run the notebooks and store their outputs (NB=chapters/en/06_order.ipynb: one)
	@python tools/execute.py $(NB)
	@python tools/editions.py sync
	@python tools/picture.py

sync: $(BOOK_ENV)  ## bring code, outputs and glossary of the Chinese edition up to date
	@python tools/editions.py sync

confirm-zh: $(BOOK_ENV)  ## record that the Chinese text fits the English (PAGES="06_order README": some)
	@python tools/editions.py confirm $(PAGES)

repository: $(BOOK_ENV)  ## put the repository's address everywhere (URL=https://github.com/owner/name)
	@python tools/repository.py "$(URL)"

bench-site: $(TEST_ENV) site  ## bytes, requests and time of every page on a slow line, beside stock Jupyter Book
	@if python tools/stock_site.py _build/stock; \
	  then python tools/bench_site.py --stock _build/stock/_build/html $(PAGES); \
	  else python tools/bench_site.py $(PAGES); fi

# ---- the checks ---------------------------------------------------------------------------------

test: $(TEST_ENV)  ## run every check
	@rm -rf $(REPORTS) && mkdir -p $(REPORTS)
	@status=0; $(MAKE) --keep-going lint types unit notebooks notebooks-gpu site-tests || status=$$?; \
	  python tools/total.py $(REPORTS)/*.xml; exit $$status

lint: $(TEST_ENV)
	@echo "== ruff" && ruff check . && ruff format --check .

types: $(TEST_ENV)
	@echo "== types" && mypy --strict

unit: $(TEST_ENV)  ## only the tests of the package and of the notebooks' files
	@echo "== unit tests" && $(PYTEST) -m "not book" tests $(call report,unit)

notebooks: $(TEST_ENV)  ## only the notebooks, run again and compared, on the CPU
	@echo "== notebooks, CPU" && $(PYTEST) $(NBVAL) --nbval-kernel-name dnnl-cpu $(call report,notebooks-cpu)

notebooks-gpu: $(TEST_ENV)  ## the same on the GPU (DNNL_REQUIRE_GPU=1: fail without one)
	@echo "== notebooks, GPU" && $(PYTEST) -n 0 $(NBVAL) --nbval-kernel-name dnnl-gpu $(call report,notebooks-gpu)

site-tests: $(TEST_ENV) site  ## only the tests of the built book, some in a browser
	@echo "== built book" && $(PYTEST) -m book tests $(call report,site)

# Its own environment, by pip's choice: what a user gets, on a Python older than the book's too.
PACKAGE_VENV = $(VENV)-package-$(notdir $(PYTHON))
package:  ## the tests of the package alone, with the newest dependencies that it allows
	@test -x $(PACKAGE_VENV)/bin/python || $(PYTHON) -m venv $(PACKAGE_VENV)
	@$(PACKAGE_VENV)/bin/python -m pip install -qq --progress-bar off --editable ".[test]"
	@$(PACKAGE_VENV)/bin/python -m pytest -W default $(wildcard tests/test_vit_*.py)

bench: $(TEST_ENV)  ## time the model beside other libraries (BENCH=--quick: a rehearsal)
	@python benchmarks/run.py $(BENCH)

clean:  ## remove what was built (the environment stays)
	@rm -rf _build dist .pytest_cache .ruff_cache .mypy_cache .hypothesis
