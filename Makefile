# Every target makes the environment it needs: `make test` and `make demo` work on a fresh clone.
VENV   ?= .venv
PYTHON ?= python3
BIN    := $(VENV)/bin
READY  := $(VENV)/.installed

.PHONY: test test-slow lint types layers unit demo format clean

test: lint types layers unit

$(READY): pyproject.toml setup.py constraints.txt $(wildcard src/torchcaps/kernels/csrc/*.cpp src/torchcaps/kernels/csrc/*.h)
	test -x $(BIN)/python || $(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet --disable-pip-version-check -c constraints.txt -e '.[dev]'
	touch $@

lint: $(READY)
	$(BIN)/ruff check src tests benchmarks
	$(BIN)/ruff format --check src tests benchmarks

types: $(READY)
	$(BIN)/mypy

layers: $(READY)
	$(BIN)/lint-imports

unit: $(READY)
	$(BIN)/python -m pytest -m "not slow" -n 2

test-slow: $(READY)
	$(BIN)/python -m pytest -m slow

demo: $(READY)
	$(BIN)/torchcaps demo

format: $(READY)
	$(BIN)/ruff check --fix src tests benchmarks
	$(BIN)/ruff format src tests benchmarks

clean:
	rm -rf $(VENV) build dist *.egg-info src/*.egg-info .pytest_cache .hypothesis .mypy_cache .ruff_cache
