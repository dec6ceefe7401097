# Every target creates the environment it needs: `make test` and `make demo` work on a fresh clone.
VENV   ?= .venv
PYTHON ?= python3
BIN    := $(VENV)/bin
READY  := $(VENV)/.installed
# The exact versions that the suite is tested with. Python 3.10 is older than some of them: CONSTRAINTS= there.
CONSTRAINTS ?= -c constraints.txt

PYTHON_CODE := src tests benchmarks docs/hooks docs/figures docs/lessons docs/zh/lessons
CPP_CODE    := $(sort $(shell find src/torchcaps/kernels -name '*.cpp' -o -name '*.h'))
# The core: capsules, votes, poses, routing, layers, losses, models and registries. Tests that call a compiler
# or score the shipped weights take longer than all others together and are left to `make test`.
QUICK := tests/test_capsules.py tests/votes tests/test_losses.py tests/test_pitfalls.py \
	tests/poses tests/layers tests/models tests/routing tests/data/test_registry.py \
	src/torchcaps/poses src/torchcaps/votes src/torchcaps/routing src/torchcaps/layers src/torchcaps/models \
	--ignore=tests/routing/test_gradient_accuracy.py --ignore=tests/layers/test_compiled.py --ignore=tests/models/test_pretrained.py \
	--deselect tests/layers/test_capsule_layers.py::test_compiles_whole

.PHONY: test quick test-page test-slow torture lint lint-python lint-cpp lint-js types layers unit docs demo format clean

test: lint types layers docs unit

$(READY): pyproject.toml setup.py constraints.txt $(CPP_CODE)
	test -x $(BIN)/python || $(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet --disable-pip-version-check $(CONSTRAINTS) -e '.[dev]'
	touch $@

lint: lint-python lint-cpp lint-js

lint-python: $(READY)
	$(BIN)/ruff check $(PYTHON_CODE)
	$(BIN)/ruff format --check $(PYTHON_CODE)

lint-cpp: $(READY)
	$(BIN)/clang-format --dry-run -Werror $(CPP_CODE)

# Node.js is needed for this alone, so a machine without it skips this check, but not in CI.
lint-js:
	@if [ ! -f package.json ]; then :; \
	elif command -v npm >/dev/null; then $(MAKE) --no-print-directory node_modules && npm run --silent lint; \
	elif [ -n "$$CI" ]; then echo "npm is missing: install Node.js to lint the lab's JavaScript" >&2; exit 1; \
	else echo "npm is not installed: the lab's JavaScript was not linted"; fi

node_modules: package.json package-lock.json
	npm ci --silent --no-audit --no-fund
	touch $@

types: $(READY)
	$(BIN)/mypy

layers: $(READY)
	$(BIN)/lint-imports

# One thread per worker: two workers with two threads each would wait for one another most of the time.
quick: $(READY)
	OMP_NUM_THREADS=1 HYPOTHESIS_PROFILE=brief $(BIN)/python -m pytest -m "not slow" -n 2 $(QUICK)

# What fails is run once more, alone: a process or a browser that waits for a busy machine may time out. A fault fails
# twice.
unit: $(READY)
	OMP_NUM_THREADS=1 $(BIN)/python -m pytest -m "not slow and not browser" -n 2 || \
	OMP_NUM_THREADS=1 $(BIN)/python -m pytest -m "not slow and not browser" --last-failed --last-failed-no-failures none

# The lab's page in Chromium: as long as all other tests together. Some of them need axe-core, which npm installs.
test-page: $(READY)
	@if command -v npm >/dev/null; then $(MAKE) --no-print-directory node_modules; fi
	OMP_NUM_THREADS=1 $(BIN)/python -m pytest -m "browser and not slow" -n 2 tests/lab || \
	OMP_NUM_THREADS=1 $(BIN)/python -m pytest -m "browser and not slow" tests/lab --last-failed --last-failed-no-failures none

# Slow tests one at a time, since some of them measure; then every property test with 200 random examples.
test-slow: $(READY)
	$(BIN)/python -m pytest -m slow
	OMP_NUM_THREADS=1 HYPOTHESIS_PROFILE=slow $(BIN)/python -m pytest -m "hypothesis and not slow" -n 2

# Random attacks on numerics, training, parsers and the lab: see docs/reliability.md. TORTURE=--quick for a short run.
torture: $(READY)
	OMP_NUM_THREADS=1 PYTHONPATH=tests $(BIN)/python -m torture $(TORTURE)

# The site in site/; a broken link or reference is an error (not with --quiet, which hides warnings from --strict).
# `mkdocs serve` shows it while you write.
docs: $(READY)
	NO_MKDOCS_2_WARNING=1 $(BIN)/mkdocs build --strict

demo: $(READY)
	$(BIN)/torchcaps demo

format: $(READY)
	$(BIN)/ruff check --fix $(PYTHON_CODE)
	$(BIN)/ruff format $(PYTHON_CODE)
	$(BIN)/clang-format -i $(CPP_CODE)

clean:
	rm -rf $(VENV) build dist site *.egg-info src/*.egg-info node_modules
	rm -rf .pytest_cache .hypothesis .mypy_cache .ruff_cache .import_linter_cache
