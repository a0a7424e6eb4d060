# `make test` and `make demo` are all a newcomer needs; python3 and make are all they ask for.

PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
STAMP := $(VENV)/.installed
WORKERS ?= 2
PYTEST_ARGS ?=
# How long one test may take, in seconds: a net for what hangs, wide enough for a slow machine.
TEST_SECONDS ?= 600
# The order of the tests and what they draw: the same each time, so that a red run can be run again. 0 for another each time.
SEED ?= 1
PYTEST := -m pytest -n $(WORKERS) --dist worksteal --timeout $(TEST_SECONDS) $(if $(filter-out 0,$(SEED)),--randomly-seed $(SEED))
# Other versions go into another environment: make test VENV=.venv-2.0 REQUIREMENTS='sqlalchemy<2.1'
REQUIREMENTS ?=
AGAINST ?=
PARTS ?=

.PHONY: help venv demo test test-fast test-engines test-peers check docs package format bench bench-full bench-recall growth instructions gates walks soak clean

help:
	@echo "make demo          a conversation with memory, without any key or network"
	@echo "make test          all tests on memory, files, SQLite, PostgreSQL and MariaDB (starts its own servers)"
	@echo "make test-engines  the tests of Cassandra, on three nodes that it starts itself"
	@echo "make test-peers    programs of deepagents, supervisor, swarm, langmem and trustcall, and two of their test suites"
	@echo "make test-fast     the tests on memory and SQLite only"
	@echo "make check         formatting, lint, types, direction of imports, the documentation"
	@echo "make docs          the documentation as a site, on a local port"
	@echo "make package       the wheel, installed elsewhere, with the README run from it"
	@echo "make format        rewrite the code as the formatter has it"
	@echo "make bench         ours beside what people would pick instead: tables and pictures in docs/; minutes"
	@echo "make bench-full    the same for longer sessions, and every other benchmark; an hour"
	@echo "make bench-recall  the quality and speed of recall"
	@echo "make instructions  instructions per operation under valgrind; AGAINST=../before beside another tree"
	@echo "make growth        what a thread takes as it grows, beside LangGraph's own savers; draws docs/figures"
	@echo "make gates         counts of what calls cost, beside the recorded ones; AGAINST as above"
	@echo "make walks         the modules that a call passes; AGAINST as above"
	@echo "make soak          hours of random use, of kills and of faults; PARTS='kills look-alikes' for some of it"
	@echo "make clean         remove what was built"

venv: $(STAMP)

$(STAMP): pyproject.toml
	@$(PYTHON) -c 'import ensurepip' 2>/dev/null || $(MAKE) --no-print-directory install-venv
	test -x $(BIN)/python || $(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --disable-pip-version-check --progress-bar off --editable '.[all,dev]' $(foreach each,$(REQUIREMENTS),'$(each)')
	@touch $@

# Debian keeps venv in a package of its own.
.PHONY: install-venv
install-venv:
	@if [ "$$(id -u)" = 0 ] && command -v apt-get >/dev/null; then \
		apt-get update -q && DEBIAN_FRONTEND=noninteractive apt-get install -y -q python3-venv; \
	else \
		echo "$(PYTHON) cannot make virtual environments here. On Debian or Ubuntu: sudo apt-get install python3-venv"; \
		exit 1; \
	fi

# An environment of its own with what it uses and no more; make demo URL=postgresql://… EXTRAS=agents,postgres for a server.
DEMO := .venv-demo
EXTRAS ?= agents
demo: $(DEMO)/.installed-$(EXTRAS)
	@$(DEMO)/bin/python examples/demo.py $(URL)

$(DEMO)/.installed-%: pyproject.toml
	@$(PYTHON) -c 'import ensurepip' 2>/dev/null || $(MAKE) --no-print-directory install-venv
	@echo "Installing what the demo uses into $(DEMO), about 100 MB …"
	@test -x $(DEMO)/bin/python || $(PYTHON) -m venv $(DEMO)
	@$(DEMO)/bin/python -m pip install -q --disable-pip-version-check --progress-bar off --no-compile --editable '.[$*]' rich
	@touch $@

test: venv
	$(BIN)/python -m tests.servers run --install -- $(BIN)/python $(PYTEST) $(PYTEST_ARGS)

test-fast: venv
	$(BIN)/python $(PYTEST) --backends memory,sqlite $(PYTEST_ARGS)

# The engine's own tests; what all of the library is tested with on every backend; and alone, what kills nodes.
ON_ENGINES := tests/checkpointer/test_conformance.py tests/checkpointer/test_as_documented.py \
	tests/compaction/test_compact.py tests/recall/test_search.py tests/surface/test_backends.py
test-engines: venv
	$(BIN)/python -m tests.servers.cassandra --install -- sh -ec '\
		$(BIN)/python $(PYTEST) $(PYTEST_ARGS) tests/engines --ignore tests/engines/faults; \
		$(BIN)/python $(PYTEST) $(PYTEST_ARGS) --backends cassandra $(ON_ENGINES); \
		$(BIN)/python -m pytest --timeout $(TEST_SECONDS) -p no:logging $(PYTEST_ARGS) tests/engines/faults'

test-peers:
	.ci/peers

check: venv
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/pyright
	$(BIN)/python -m benchmarks.exported
	$(BIN)/python -m pytest -q -p no:randomly tests/unit/test_import_direction.py
	NO_MKDOCS_2_WARNING=1 $(BIN)/mkdocs build --strict --quiet --site-dir build/site

package: venv
	$(BIN)/python -m tests.docs.wheel

docs: venv
	NO_MKDOCS_2_WARNING=1 $(BIN)/mkdocs serve

format: venv
	$(BIN)/ruff check --fix-only .
	$(BIN)/ruff format .

# BENCH='--only lists --sessions 1000000' for some of it.
BENCH ?=
bench:
	.ci/beside $(BENCH)

bench-full: venv
	.ci/beside --full $(BENCH)
	$(BIN)/python -m tests.servers run --install -- $(BIN)/python -m benchmarks

bench-recall: venv
	$(BIN)/python -m benchmarks.recall --ablation --leave-one-out --haystack --embed minilm
	$(BIN)/python -m benchmarks.recall_languages
	$(BIN)/python -m benchmarks.recall_speed
	$(BIN)/python -m benchmarks.recall_bounds

instructions: venv
	$(BIN)/python -m benchmarks.instructions $(if $(AGAINST),--against $(AGAINST))

growth: venv
	$(BIN)/python -m tests.servers run --install -- $(BIN)/python -m benchmarks.growth

gates: venv
	$(BIN)/python -m tests.servers run --install -- $(BIN)/python -m benchmarks.gates --install $(if $(AGAINST),--against $(AGAINST))

walks: venv
	$(BIN)/python -m benchmarks.walks $(if $(AGAINST),--against $(AGAINST))

soak: venv
	$(BIN)/python -m tests.servers run --install -- $(BIN)/python -m benchmarks.soak $(PARTS)

clean:
	rm -rf $(VENV) $(DEMO) build dist .mypy_cache .pytest_cache .ruff_cache .hypothesis
	find . -name __pycache__ -type d -prune -exec rm -rf {} +
