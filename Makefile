# Everything runs in .venv, which `make setup` builds from constraints.txt. Another interpreter: make setup PYTHON=python3.12
.POSIX:
PYTHON =
BIN = .venv/bin
FAULTS = --kills 200
# Files of tests side by side, one a core; how many: make test JOBS=1.
JOBS = auto
# tests/conftest.py begins with the longest files; xdist would begin with those of most tests.
SIDE_BY_SIDE = -n $(JOBS) --maxprocesses 8 --dist loadfile --no-loadscope-reorder

help:
	@echo 'make setup   .venv with the pinned versions, and WordNet'
	@echo 'make demo    continue a real encoder on WordNet glosses and show what hard correction does'
	@echo 'make test    lint, types, tests and doctests'
	@echo 'make check   lint, types and the tests that train nothing: two minutes'
	@echo 'make lint    ruff and mypy alone'
	@echo 'make faults  kill, fill, flip and mutate by the hundred, and count what came of it (an hour)'
	@echo 'make bench   what correction and regularization cost a step, measured here'
	@echo 'make docs    run every command of README.md and docs/'
	@echo 'make site    the documentation as a website, in site/'
	@echo 'make clean   remove .venv and the caches'

setup: .venv/installed
	@scripts/install-wordnet $(BIN)/python

# The stamp is written last, so an interrupted set-up starts again.
.venv/installed: constraints.txt pyproject.toml
	python=$$(PYTHON='$(PYTHON)' scripts/find-python) && "$$python" -m venv .venv
	$(BIN)/python -m pip install --disable-pip-version-check --quiet -c constraints.txt -e '.[dev,demo]'
	touch $@

demo: setup
	$(BIN)/trueneg demo

lint: .venv/installed
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy

test: setup lint
	$(BIN)/python -m pytest --doctest-modules src
	CHROMIUM="$$(scripts/install-chromium)" && export CHROMIUM && $(BIN)/python -m pytest $(SIDE_BY_SIDE) tests

check: setup lint
	$(BIN)/python -m pytest $(SIDE_BY_SIDE) -m 'not slow' tests

faults: setup
	PYTHONPATH=tests $(BIN)/python -m faults $(FAULTS)

bench: setup
	$(BIN)/trueneg bench overhead

docs: setup
	$(BIN)/python -m pytest tests/test_readme.py

site: .venv/installed
	NO_MKDOCS_2_WARNING=1 $(BIN)/mkdocs build -q

clean:
	rm -rf .venv site .mypy_cache .ruff_cache .pytest_cache .hypothesis build src/trueneg.egg-info

.PHONY: help setup demo lint check test faults bench docs site clean
