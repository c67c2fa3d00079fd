# The two commands of the book, and their parts. `make help` lists them.
#
#   make book     builds the site; the last line is the path of its first page
#   make test     runs everything that CI runs
#
# Both create a virtual environment. The name of a stamp file in it contains a checksum of the
# requirements, so that it is updated if and only if they change.

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
PAGES ?=

# In every recipe, programs of the environment come first on PATH.
export PATH := $(abspath $(VENV))/bin:$(PATH)
export PIP_DISABLE_PIP_VERSION_CHECK := 1
PIP_INSTALL := python -m pip install -qq --progress-bar off

checksum = $(shell cat $(1) | cksum | cut -d' ' -f1)
BOOK_ENV := $(VENV)/.book-$(call checksum,requirements.lock requirements.txt pyproject.toml)
TEST_ENV := $(VENV)/.test-$(call checksum,requirements.lock requirements.txt requirements-test.txt pyproject.toml)

# For `make newest`: the requirements without their versions. Jupyter Book 2 is another program.
unpin = sed -E 's/^jupyter-book==.*/jupyter-book<2/; s/==.*//'

# As many workers as cores, with one thread each: more threads than cores would be slower. A file
# stays with one worker, which then imports the libraries that it compares with once.
WORKERS ?= auto
PYTEST := OMP_NUM_THREADS=1 python -m pytest -n $(WORKERS) --durations=15
# The checks that an ordinary change cannot break, and `make test-all` runs too: see `release` in
# pyproject.toml.
RELEASE := not release
# Only English notebooks run: cells and outputs of the Chinese edition are equal to theirs, byte for
# byte (tests/test_editions.py).
NBVAL := --nbval --dist loadfile chapters/en
report = --junitxml=$(REPORTS)/$(1).xml

.PHONY: help book site bundle watch test test-all lint types unit notebooks notebooks-gpu site-tests execute sync \
  confirm-zh bench-site lock package newest lowest bench clean

help:  ## show this list
	@sed -nE 's/^([a-z-]+):.*## (.*)/  make \1|\2/p' $(MAKEFILE_LIST) | column -t -s '|'

# ---- environments -------------------------------------------------------------------------------

$(BOOK_ENV):
	@echo "Installing the book's environment in $(VENV) (minutes, once) ..."
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' \
	  || { echo "The book needs Python 3.11 or newer: make PYTHON=/path/to/python3.11 ..." >&2; exit 1; }
	@test -x $(VENV)/bin/python || $(PYTHON) -m venv $(VENV) \
	  || { rm -rf $(VENV); echo "$(PYTHON) cannot make a virtual environment" \
	       "(on Debian and Ubuntu: apt-get install python3-venv)." >&2; exit 1; }
ifdef NEWEST
	@$(unpin) requirements.txt > $(VENV)/newest.txt
	@$(PIP_INSTALL) --upgrade -r $(VENV)/newest.txt
else
	@$(PIP_INSTALL) --require-hashes -r requirements.lock
	@$(PIP_INSTALL) -r requirements.txt
endif
	@$(PIP_INSTALL) --no-deps --editable .
	@rm -f $(VENV)/.book-* && touch $@

$(TEST_ENV): $(BOOK_ENV)
	@echo "Installing what the tests need (minutes, once) ..."
ifdef NEWEST
	@$(unpin) requirements-test.txt | grep -v '^-r' > $(VENV)/newest-test.txt
	@$(PIP_INSTALL) --upgrade -r $(VENV)/newest.txt -r $(VENV)/newest-test.txt
else
	@$(PIP_INSTALL) -r requirements-test.txt
endif
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
	@python tools/cover.py

bundle: $(TEST_ENV)  ## bundle the explorers' JavaScript (needs npm's registry, once)
	@python tools/bundle.py

watch: $(TEST_ENV)  ## bundle an explorer whenever its source changes (with ANYWIDGET_HMR=1 jupyter lab)
	@python tools/bundle.py --watch

sync: $(BOOK_ENV)  ## update code, outputs and glossary of the Chinese edition
	@python tools/editions.py sync

confirm-zh: $(BOOK_ENV)  ## record that the Chinese text fits the English (PAGES="06_order README": some)
	@python tools/editions.py confirm $(PAGES)

# What decides the HTML is locked with hashes. torch is not in the lock: machines have builds of their
# own, and it only computes outputs, which are stored.
lock: $(TEST_ENV)  ## write requirements.lock, with hashes, from requirements.txt
	@grep -v '^torch' requirements.txt | uv pip compile - --quiet --universal --python-version 3.11 \
	  --generate-hashes --no-annotate --custom-compile-command "make lock" --output-file requirements.lock

bench-site: $(TEST_ENV) site  ## measure bytes, requests and time of every page on a slow connection
	@if python tools/stock_site.py _build/stock; \
	  then python tools/bench_site.py --stock _build/stock/_build/html $(PAGES); \
	  else python tools/bench_site.py $(PAGES); fi

# ---- the checks ---------------------------------------------------------------------------------

test: $(TEST_ENV)  ## run every kind of check
	@rm -rf $(REPORTS) && mkdir -p $(REPORTS)
	@status=0; $(MAKE) --keep-going lint types unit notebooks notebooks-gpu site-tests || status=$$?; \
	  python tools/sum_reports.py $(REPORTS)/*.xml; exit $$status

test-all: $(TEST_ENV)  ## the same with what is only worth its time before a release
	@$(MAKE) test RELEASE="book or not book"

lint: $(TEST_ENV)
	@echo "== ruff" && ruff check . && ruff format --check .

types: $(TEST_ENV)
	@echo "== types" && mypy --strict && mypy --strict benchmarks tools _ext conftest.py

unit: $(TEST_ENV)  ## only the tests of the package and of the notebooks' files
	@echo "== unit tests" && $(PYTEST) --dist loadfile -m "not book and ($(RELEASE))" tests $(call report,unit)

notebooks: $(TEST_ENV)  ## only the notebooks, run again and compared, on the CPU
	@echo "== notebooks, CPU" && $(PYTEST) $(NBVAL) --nbval-kernel-name dnnl-cpu $(call report,notebooks-cpu)

notebooks-gpu: $(TEST_ENV)  ## the notebooks on the GPU (DNNL_REQUIRE_GPU=1: fail without one)
	@echo "== notebooks, GPU" && $(PYTEST) -n 0 $(NBVAL) --nbval-kernel-name dnnl-gpu $(call report,notebooks-gpu)

site-tests: $(TEST_ENV) site  ## only the tests of the built book, some in a browser
	@echo "== built book" && $(PYTEST) -m "book and ($(RELEASE))" tests $(call report,site)
	@echo "== sphinx-anywidget" && CHROMIUM="$$(python tools/browser.py --path)" $(PYTEST) \
	  _ext/sphinx-anywidget/tests $(call report,sphinx-anywidget)

# A separate environment with pip's choice of versions, as a user gets it; also on an older Python.
PACKAGE_VENV = $(VENV)-package-$(notdir $(PYTHON))
PACKAGE_TESTS = tests/test_package.py $(wildcard tests/test_vit_*.py)
package:  ## test the package alone, with the newest dependencies that it allows
	@test -x $(PACKAGE_VENV)/bin/python || $(PYTHON) -m venv $(PACKAGE_VENV)
	@$(PACKAGE_VENV)/bin/python -m pip install -qq --progress-bar off --editable ".[test]"
	@$(PACKAGE_VENV)/bin/python -m pytest -W default $(PACKAGE_TESTS)

# The lower bounds in pyproject.toml are promises. The libraries to compare with have bounds, too,
# which are the oldest that still agree with each other.
LOWEST_VENV = $(VENV)-lowest-$(notdir $(PYTHON))
lowest:  ## test the package with the lowest versions that pyproject.toml promises
	@test -x $(LOWEST_VENV)/bin/uv || { $(PYTHON) -m venv $(LOWEST_VENV) \
	  && $(LOWEST_VENV)/bin/python -m pip install -qq --progress-bar off uv; }
	@$(LOWEST_VENV)/bin/uv pip install --quiet --python $(LOWEST_VENV)/bin/python \
	  --resolution lowest-direct --editable ".[book,pretrained,test]"
	@$(LOWEST_VENV)/bin/python -m pytest -W default $(PACKAGE_TESTS) $(LOWEST_TESTS)

newest:  ## run `make test` with the newest release of everything
	@$(MAKE) test VENV=$(VENV)-newest NEWEST=1

bench: $(TEST_ENV)  ## time the model and other libraries (BENCH=--quick: a rehearsal)
	@python benchmarks/run.py $(BENCH)

clean:  ## remove all build products (but not the environment)
	@rm -rf _build dist .pytest_cache .ruff_cache .mypy_cache .hypothesis
