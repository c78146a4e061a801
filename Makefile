# Two commands: `make demo` and `make test`. Everything else is for those who work on Driftline.
#
# All of it runs in .venv, which is made on first use and made again when the pins or pyproject.toml change.

PYTHON ?= python3
VENV   := .venv
BIN    := $(VENV)/bin
STAMP  := $(VENV)/.installed

# Two processes, each with its own workers; a file's tests stay in one of them and share what it has warm. Files are
# begun in the order of tests/conftest.py, the short ones last.
PARALLEL := -n 2 --dist loadfile --no-loadscope-reorder

# Real compilers on a busy machine: a test that fails is run once more, and the summary names those that needed it (R).
AGAIN := --reruns 1 -raR --durations 30 --costs

EXTRAS := all models lab docs dev
HASHED := $(BIN)/python -m pip install --quiet --require-hashes --no-deps

# The releases that stand in the written files stay.
LOCK := $(BIN)/uv pip compile --quiet --universal --python-version 3.11 --no-python-downloads --generate-hashes \
  --no-annotate --custom-compile-command "make lock"

export PIP_REQUIRE_VIRTUALENV = 1
export PIP_DISABLE_PIP_VERSION_CHECK = 1
export PATH := $(CURDIR)/$(BIN):$(PATH)

.PHONY: help install demo test test-all lint lock docs wheel man changelog benchmarks clean

help:
	@echo "make demo        hunt for two minutes (four on a busy machine) on every installed compiler, and write a report"
	@echo "make test        install all that is needed and run the fast tests"
	@echo "make test-all    run the slow tests too"
	@echo "make lint        ruff, mypy, import-linter, measures of the source"
	@echo "make lock        write the packages and hashes that are installed, from pyproject.toml and constraints.txt"
	@echo "make docs        build the documentation as a site in site/, which opens from disk"
	@echo "make wheel       build the wheel and the source archive in dist/"
	@echo "make man         write the man page to build/driftline.1"
	@echo "make changelog   move the news fragments of changes/ into CHANGELOG.md"
	@echo "make benchmarks  measure what docs/measured.md says"
	@echo "make clean       remove .venv and what tests leave behind"

install: $(STAMP)

# Each file is held against its hash (`make lock`). What builds packages comes first: left to itself pip would fetch it
# without hashes. torch comes last, by its version alone, since some machines have a build of their own; without a
# version pip would fetch a newer one with gigabytes of GPU libraries.
$(STAMP): pyproject.toml constraints.txt requirements/build.txt requirements/locked.txt
	@$(MAKE) --no-print-directory system-packages
	test -x $(BIN)/python || $(PYTHON) -m venv $(VENV)
	$(HASHED) -r requirements/build.txt
	$(HASHED) --no-build-isolation --use-pep517 -r requirements/locked.txt
	$(BIN)/python -m pip install --quiet -c constraints.txt torch
	$(BIN)/python -m pip install --quiet --no-deps --no-build-isolation -e .
	@touch $(STAMP)

# TorchInductor compiles C++; the interpreter's virtualenv module is a package of its own on Debian. The tests look at
# the report in a browser; without one they are skipped.
.PHONY: system-packages
system-packages:
	@command -v g++ >/dev/null && $(PYTHON) -c 'import venv, ensurepip' 2>/dev/null || { \
	  command -v apt-get >/dev/null || { echo "Install g++ and Python's venv module first."; exit 1; }; \
	  as_root=; [ "$$(id -u)" = 0 ] || as_root=sudo; \
	  $$as_root apt-get update -qq && $$as_root apt-get install -y -qq g++ python3-venv python3-dev; }
	@command -v chromium >/dev/null || command -v chromium-browser >/dev/null || { \
	  command -v apt-get >/dev/null || { echo "No chromium: the browser tests will be skipped."; exit 0; }; \
	  as_root=; [ "$$(id -u)" = 0 ] || as_root=sudo; \
	  { $$as_root apt-get update -qq && $$as_root apt-get install -y -qq chromium; } \
	    || echo "chromium cannot be installed: the browser tests will be skipped."; }

demo: install
	$(BIN)/python examples/demo.py

test: install
	$(call beside_lint,$(BIN)/python -m pytest $(PARALLEL) $(AGAIN))

test-all: install
	$(call beside_lint,$(BIN)/python -m pytest $(PARALLEL) $(AGAIN) -m '' --hypothesis-profile searching)

# The lock of `make install`: all packages with the hashes of all their files, for x86-64 and for Arm.
lock: install
	$(LOCK) -c constraints.txt $(EXTRAS:%=--extra %) --no-emit-package torch --excludes requirements/excluded.in \
	  pyproject.toml requirements/build.in -o requirements/locked.txt
	$(LOCK) -c requirements/locked.txt requirements/build.in -o requirements/build.txt

# Tests wait now and then, and leave a processor to the linters. What these say comes last, where it is seen.
define beside_lint
@mkdir -p build; $(MAKE) --no-print-directory lint > build/lint.log 2>&1 & linters=$$!; \
  echo "$(1)"; $(1); tests=$$?; \
  wait $$linters; linted=$$?; cat build/lint.log; exit $$((tests || linted))
endef

lint: install
	$(BIN)/ruff check src tests examples benchmarks docs/site hatch_build.py
	$(BIN)/ruff format --check src tests examples benchmarks docs/site hatch_build.py
	$(BIN)/mypy
	$(BIN)/lint-imports
	$(BIN)/python tests/house/measures.py

docs: install
	$(BIN)/python docs/site/build.py

wheel: install
	$(BIN)/python -m hatchling build -d dist

man: install
	@mkdir -p build
	$(BIN)/python -m driftline.cli.man_page > build/driftline.1

changelog: install
	$(BIN)/towncrier build --yes

benchmarks: install
	$(BIN)/python benchmarks/workers.py
	$(BIN)/python benchmarks/known_bugs.py
	$(BIN)/python benchmarks/sound_models.py
	$(BIN)/python benchmarks/models.py
	$(BIN)/python benchmarks/oracle.py
	$(BIN)/python benchmarks/hunt.py
	$(BIN)/python benchmarks/patterns.py
	$(BIN)/python benchmarks/reduce.py
	$(BIN)/python benchmarks/budgets.py
	$(BIN)/python benchmarks/inputs.py
	$(BIN)/python benchmarks/instabilities.py

clean:
	rm -rf $(VENV) build dist site .pytest_cache .mypy_cache .ruff_cache .hypothesis
