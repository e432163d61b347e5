# The two commands that matter: make demo, make test. Each sets up what is missing first.
PYTHON ?= python3
RUN := .venv/bin/python
# Test files run at the same time, each process with a broker of its own: most tests wait, so three keep two cores busy.
WORKERS ?= 3
# How many schedules of faults 'make crash' runs.
SEEDS ?= 10
# Against which release of Kafka 'make brokers' runs what rests on a broker.
KAFKA ?= 3.9.1

.PHONY: demo test unit integration browser crash brokers model check setup setup-tests clean

demo: setup           ## run all of it on this machine and print the address (Ctrl-C ends it)
	@$(RUN) -m demo

test: setup-tests check   ## every check and every test, on the real broker and in a real browser
	@$(RUN) -m pytest tests -n $(WORKERS) --dist loadfile --no-loadscope-reorder

unit: setup-tests     ## the fast tests: no services, no whole pages, no files that are damaged on purpose
	@$(RUN) -m pytest tests/unit -n $(WORKERS) -m "not slow"

integration: setup-tests
	@$(RUN) -m pytest tests/integration

browser: setup-tests
	@$(RUN) -m pytest tests/browser

crash: setup-tests    ## random schedules of faults: make crash SEEDS=20 (docs/faults.md)
	@$(RUN) -m tests.crash --seeds $(SEEDS)

brokers: setup-tests  ## what rests on a broker, on another release: make brokers KAFKA=3.6.2 (docs/brokers.md)
	@$(RUN) -m tests.brokers --kafka $(KAFKA)

model: setup-tests    ## the protocol's model in its large sizes: hours (docs/model/README.md)
	@$(RUN) docs/model/verify.py --large

check: setup-tests    ## style, types, directions of imports
	@.venv/bin/ruff check . && .venv/bin/ruff format --check . && .venv/bin/mypy && .venv/bin/lint-imports --no-cache

setup:
	@$(PYTHON) demo/prerequisites.py

setup-tests:
	@$(PYTHON) demo/prerequisites.py --tests

clean:                ## remove what setup and runs made
	rm -rf .venv .run
