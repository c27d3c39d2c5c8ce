# Every target installs what it needs into .venv by itself and does nothing twice.
.DEFAULT_GOAL := help
PYTHON ?= python3
BIN := .venv/bin
WORKERS ?= auto
# A worker that dies fails its test. xdist would give a new worker the whole group again, the fatal test included.
PARALLEL = -n $(WORKERS) --max-worker-restart=0

.PHONY: help install libmagic demo pictures source-map check test soak bench e2e-cli format lint types imports unit lock clean

help:  ## Show this help
	@awk -F ':.*## ' '/^[a-z0-9-]+:.*## / {printf "  make %-10s %s\n", $$1, $$2}' $(MAKEFILE_LIST)

$(BIN)/python:
	$(PYTHON) -m venv .venv

.venv/.runtime: $(BIN)/python pyproject.toml constraints.txt
	@$(BIN)/python -m pip install --quiet --disable-pip-version-check -c constraints.txt -e '.[pipeline,channels]'
	@touch $@

.venv/.dev: .venv/.runtime
	@$(BIN)/python -m pip install --quiet --disable-pip-version-check -c constraints.txt -e '.[pipeline,channels,whatsapp,dev]'
	@touch $@

.venv/.bench: .venv/.dev
	@$(BIN)/python -m pip install --quiet --disable-pip-version-check -c constraints.txt -e '.[pipeline,channels,bench]'
	@touch $@

install: .venv/.dev  ## Install the package and the developer tools into .venv

demo: .venv/.runtime  ## Run the whole thing end to end on embedded defaults; ends by itself (STAY=1: leaves its API running)
	@$(BIN)/tinyagi demo $(if $(STAY),--stay)

pictures: .venv/.dev  ## Draw the README's pictures from a run of the demo
	@$(BIN)/python docs/images/draw.py

source-map: .venv/.dev  ## Write docs/reference/source.md, the list of all source files
	@$(BIN)/python docs/source_map.py

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

libmagic: .venv/.dev  ## What linked WhatsApp phones need, Debian's libmagic1, if it is missing
	@$(BIN)/python -W ignore -c "import magic" 2>/dev/null || \
	  { echo "Installing Debian's package libmagic1, which the tests of linked phones need"; apt-get install -y -q libmagic1; }

test: lint types imports libmagic  ## Every check and every test, in a few processes at once (WORKERS=2: in two)
	@$(BIN)/pytest $(PARALLEL) --durations=25

soak: .venv/.dev  ## What `make test` asks a few times or of little data, many times and of much: a quarter of an hour
	@$(BIN)/pytest $(PARALLEL) -m soak --durations=0

bench: .venv/.bench  ## The queue beside other queues, the engine, the API and the pipeline beside their floors; JSON on the last line of each
	@$(BIN)/python bench/queue_bench.py --quick
	@$(BIN)/python bench/engine_bench.py --quick
	@$(BIN)/python bench/http_bench.py --quick
	@$(BIN)/python bench/attacks.py --quick
	@$(BIN)/python bench/channel_bench.py --quick
	@$(BIN)/python bench/pipeline_bench.py --quick

.venv/.clis: .venv/.dev
	@npm install --silent --no-fund --no-audit --prefix .venv/clis @anthropic-ai/claude-code@2.1.325 @openai/codex@0.166.0 opencode-ai@1.18.33
	@touch $@

e2e-cli: .venv/.clis  ## The real claude, codex and opencode (needs npm) against a fake model on loopback
	@TINYAGI_CLIS=$(CURDIR)/.venv/clis/node_modules/.bin $(BIN)/pytest -q tests/e2e_cli

format: .venv/.dev  ## Format and fix what can be fixed
	@$(BIN)/ruff format .
	@$(BIN)/ruff check --fix .

lock: .venv/.dev  ## Pin every dependency again in constraints.txt
	@$(BIN)/python -m pip install --quiet uv
	@$(BIN)/uv pip compile --quiet --universal --all-extras --no-emit-index-url --no-header --no-annotate pyproject.toml -o constraints.txt

clean:  ## Remove .venv and caches
	rm -rf .venv .pytest_cache .mypy_cache .ruff_cache .hypothesis .import_linter_cache
