# Two commands: `make demo` and `make test`. Both make .venv first if it is missing.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
DEMO := demo
# Programs that tests start would compile all our modules each time.
unexport PYTHONDONTWRITEBYTECODE
# Each module in one process, so that what its tests share is made once; the longest first, by tests/conftest.py.
MODULES_APART := --numprocesses auto --dist loadfile --no-loadscope-reorder

.PHONY: demo test lint types contracts tests clean

demo: $(VENV)/.installed
	$(BIN)/synthscape demo --out $(DEMO)

test: lint types contracts tests

lint: $(VENV)/.installed-dev
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .

types: $(VENV)/.installed-dev
	$(BIN)/mypy

contracts: $(VENV)/.installed-dev
	$(BIN)/lint-imports

tests: $(VENV)/.installed-dev
	$(BIN)/python -m pytest $(MODULES_APART) --doctest-modules tests synthscape kernels/synthscape_kernels

$(VENV)/.installed: pyproject.toml
	$(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --upgrade pip
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --editable .
	touch $@

$(VENV)/.installed-dev: $(VENV)/.installed
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --editable '.[dev]'
	touch $@

clean:
	rm -rf $(VENV) $(DEMO) build dist *.egg-info
