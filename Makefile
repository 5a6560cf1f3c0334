# Every target sets up .venv by itself; it needs Python 3.11 or later and make.
PYTHON ?= python3
BIN := .venv/bin
READY := .venv/.ready
OLDER := $(CURDIR)/.servers/celery-5.6
SUDO := $(shell [ "$$(id -u)" = 0 ] || echo sudo)

.DEFAULT_GOAL := help
.DELETE_ON_ERROR:
.PHONY: help demo test lint bench soak mutants docs clean

help:
	@echo "make demo | test | lint | bench | soak | mutants | docs | clean"

# The stamp lies inside .venv, so that a .venv made by hand gets the project installed too.
$(READY): pyproject.toml
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' \
		|| { echo "$(PYTHON) is older than 3.11; name another one: make PYTHON=python3.12"; exit 1; }
	@# Debian keeps what makes a venv in a package of its own.
	@$(BIN)/python -m pip --version >/dev/null 2>&1 || $(PYTHON) -c 'import ensurepip, venv' 2>/dev/null \
		|| { $(SUDO) apt-get update -q && $(SUDO) apt-get install -qy python3-venv; }
	$(BIN)/python -m pip --version >/dev/null 2>&1 || $(PYTHON) -m venv .venv
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --editable '.[all,dev]'
	@touch $@

demo: $(READY)
	$(BIN)/anarchon-beat demo

# The servers are fetched first, so that no test's time limit has to cover a download.
test: $(READY)
	$(BIN)/python -m tests.servers fetch
	@# Three at once on two cores: most of them wait for servers, workers and leases.
	$(BIN)/pytest -n 3 --dist loadgroup
	@# Some tests of workers bring the older Celery with them; here the rest of the integration has it.
	test ! -d $(OLDER) || { export PYTHONPATH=$(OLDER); \
		$(BIN)/python -c 'import celery; assert celery.__version__.startswith("5.6.")' && \
		$(BIN)/pytest tests/celery -n 3 --dist loadgroup -m 'not cluster and not soak' \
			--ignore-glob='*/test_tracked_*'; }

lint: $(READY)
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/lint-imports

bench: $(READY)
	$(BIN)/python -m benchmarks

soak: $(READY)
	$(BIN)/python -m tests.servers fetch
	$(BIN)/pytest -m soak

mutants: $(READY)
	$(BIN)/python -m tests.servers fetch
	$(BIN)/python -m tests.mutants

docs: $(READY)
	$(BIN)/sphinx-build -W -n -b html docs docs/_build/html

# Keeps .venv and .servers, which cost a download.
clean:
	rm -rf dist docs/_build .pytest_cache .mypy_cache .ruff_cache .hypothesis .import_linter_cache .coverage*
	find anarchon anarchon_beat anarchon_contract integrations tests benchmarks examples -name __pycache__ -prune -exec rm -rf {} + 2>/dev/null || true
