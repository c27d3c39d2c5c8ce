# Every target installs what it needs into .venv by itself and does nothing twice.
.DEFAULT_GOAL := help
PYTHON ?= python3
BIN := .venv/bin

.PHONY: help install demo check test bench format lint types imports unit lock clean

help:  ## Show this help
	@awk -F ':.*## ' '/^[a-z-]+:.*## / {printf "  make %-10s %s\n", $$1, $$2}' $(MAKEFILE_LIST)

$(BIN)/python:
	$(PYTHON) -m venv .venv

.venv/.runtime: $(BIN)/python pyproject.toml constraints.txt
	@$(BIN)/python -m pip install --quiet --disable-pip-version-check -c constraints.txt -e .
	@touch $@

.venv/.dev: .venv/.runtime
	@$(BIN)/python -m pip install --quiet --disable-pip-version-check -c constraints.txt -e '.[dev]'
	@touch $@

.venv/.bench: .venv/.dev
	@$(BIN)/python -m pip install --quiet --disable-pip-version-check -c constraints.txt -e '.[bench]'
	@touch $@

install: .venv/.dev  ## Install the package and the developer tools into .venv

demo: .venv/.runtime  ## Run the whole thing end to end on embedded defaults; ends by itself
	@$(BIN)/tinyagi demo

lint: .venv/.dev  ## Formatting, lint and spelling
	@$(BIN)/ruff format --check .
	@$(BIN)/ruff check .
	@$(BIN)/codespell

types: .venv/.dev  ## mypy --strict on source, tests and benches
	@$(BIN)/mypy

imports: .venv/.dev  ## The layers, held by import-linter
	@$(BIN)/lint-imports

unit: .venv/.dev  ## Unit tests only
	@$(BIN)/pytest -q tests/unit

check: lint types imports unit  ## Lint, types, layers, unit tests: under a minute

test: lint types imports  ## Every check and every test
	@$(BIN)/pytest

bench: .venv/.bench  ## The queue beside other embedded queues; JSON on the last line
	@$(BIN)/python bench/queue_bench.py --quick

format: .venv/.dev  ## Format and fix what can be fixed
	@$(BIN)/ruff format .
	@$(BIN)/ruff check --fix .

lock: .venv/.dev  ## Pin every dependency again in constraints.txt
	@$(BIN)/python -m pip install --quiet uv
	@$(BIN)/uv pip compile --quiet --universal --all-extras --no-emit-index-url --no-header --no-annotate pyproject.toml -o constraints.txt

clean:  ## Remove .venv and caches
	rm -rf .venv .pytest_cache .mypy_cache .ruff_cache .hypothesis .import_linter_cache
