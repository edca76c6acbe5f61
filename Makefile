# Trimtab: `make help` lists the tasks. PYTHON=/path/to/python3.12 chooses the interpreter.
.DEFAULT_GOAL := help
.PHONY: help run test test-all faults check format docs site screenshots bench mutants lock setup-run setup-dev
# images of containers set it: each of some hundred processes would compile every module again
unexport PYTHONDONTWRITEBYTECODE
BIN := .venv/bin
PYTEST := $(BIN)/python -m pytest

help: ## list the tasks
	@grep -hE '^[a-z-]+:.*## ' $(MAKEFILE_LIST) | awk -F':.*## ' '{printf "  make %-12s %s\n", $$1, $$2}'

run: setup-run ## set up, then open the product on the embedded fleet
	@$(BIN)/trimtab demo

test: setup-dev check ## set up, then everything CI runs (checks and tests)
	@.ci/browser
	@$(PYTEST) -n 4 --no-loadscope-reorder -m "not slow" --hypothesis-profile=ci --durations=60

test-all: setup-dev check ## the same with the long suites: live, faults, huge fleets, 20,000 mutations
	@.ci/browser
	@.ci/servers
	@$(PYTEST)

faults: setup-dev ## run plans under every fault and print one table (an hour)
	@$(PYTEST) tests/faults/test_fault_table.py tests/faults/test_kill_points.py tests/property/test_actions_property.py

check: setup-dev ## format, lint, types, import contracts
	@$(BIN)/ruff format --check .
	@$(BIN)/ruff check .
	@$(BIN)/mypy
	@$(BIN)/lint-imports --no-logo

format: setup-dev ## format and fix what the linter can fix
	@$(BIN)/ruff format .
	@$(BIN)/ruff check --fix .

docs: setup-dev ## write docs/reference/commands.md from the help texts
	@$(BIN)/python docs/build_commands.py

site: setup-dev ## build the documents as a site into site/
	@$(BIN)/zensical build --config-file mkdocs.yml --strict --clean

screenshots: setup-dev ## take the pictures of docs/images from a demo (minutes)
	@.ci/browser
	@$(BIN)/python docs/take_screenshots.py

bench: setup-dev ## measure against the named rivals (minutes)
	@for bench in bench/[a-z]*.py; do echo "== $$bench"; $(BIN)/python $$bench || exit 1; done

mutants: setup-dev ## change kernels, executor, plan and diagnosis and see whether tests notice (an hour; PARTS="shedding --count 10")
	@$(BIN)/python .ci/mutants $(PARTS)

lock: setup-dev ## renew the lock files (versions and hashes)
	@$(BIN)/uv pip compile -q --upgrade --universal --python-version 3.11 --generate-hashes --no-emit-index-url --no-header pyproject.toml -o requirements.lock
	@$(BIN)/uv pip compile -q --universal --python-version 3.11 --generate-hashes --no-emit-index-url --no-header --group pyproject.toml:build -o .ci/build.lock
	@$(BIN)/uv pip compile -q --upgrade --universal --python-version 3.11 --generate-hashes --no-emit-index-url --no-header -c requirements.lock --group dev pyproject.toml -o requirements-dev.lock

setup-run:
	@.ci/setup run

setup-dev:
	@.ci/setup dev
