# The two commands that matter: make demo, make test. Each sets up what is missing first.
PYTHON ?= python3
RUN := .venv/bin/python
# Test files run at the same time, each process with a broker of its own: most tests wait, so three keep two cores busy.
WORKERS ?= 3
# 'make demo FLINK=1': a Flink job beside the pipeline, where Maven and a JDK are there.
FLINK ?=
# 'make demo CLUSTER=1', 'make crash CLUSTER=1': on three brokers, Spark's standalone cluster and an object store.
CLUSTER ?=
# 'make test-long MINUTES=60': begins no test after so long; what it skipped is named.
MINUTES ?=
# How many schedules of faults 'make crash' runs.
SEEDS ?= 10
# How many of them side by side; each waits more than it works.
AT_ONCE ?= 2
# Which modules 'make mutants' changes: paths; empty: all of them.
MODULE ?=
# Against which release of Kafka 'make brokers' runs what rests on a broker.
KAFKA ?= 3.9.1
# Where 'make release' puts its files.
DIST ?= dist
HELM := helm.sh/helm/v4/cmd/helm@v4.3.2
# Compiled modules are kept, also where the environment forbids it: a hundred processes would compile Spark's and ours again.
export PYTHONDONTWRITEBYTECODE :=
export PYTHONPYCACHEPREFIX := $(CURDIR)/.run/pycache
LOCK := .venv/bin/uv pip compile --quiet --universal --python-version 3.11 --generate-hashes --no-annotate --no-header

.PHONY: help demo test test-long unit integration browser crash brokers model mutants check setup setup-collector setup-tests lock openapi release helm clean

help:                 ## list the targets
	@grep -hE '^[a-z-]+:.*##' $(MAKEFILE_LIST) | sed -E 's/^([a-z-]+):[^#]*## */\1\t/' | expand -t 18

demo: $(if $(CLUSTER),setup-tests,setup) ## run all of it on this machine, print the address (Ctrl-C ends it); FLINK=1; CLUSTER=1
	@$(RUN) -m demo $(if $(FLINK),--flink) $(if $(CLUSTER),--cluster)

test: setup-tests check   ## every check and the tests, on the real broker and in a real browser
	@$(RUN) -m pytest tests -n $(WORKERS) --dist loadfile --no-loadscope-reorder -m "not long"

test-long: setup-tests    ## the tests that take an hour: ten seeds of the crash checker, every fault of the demo, large models
	@$(RUN) -m pytest tests -n 2 --dist loadfile --no-loadscope-reorder -m long -rs $(if $(MINUTES),--minutes $(MINUTES))

unit: setup-tests     ## the fast tests: no services, no whole pages, no files that are damaged on purpose
	@$(RUN) -m pytest tests/unit -n 2 -m "not slow"

integration: setup-tests
	@$(RUN) -m pytest tests/integration

browser: setup-tests
	@$(RUN) -m pytest tests/browser

crash: setup-tests    ## random schedules of faults: make crash SEEDS=20 [CLUSTER=1] (docs/faults.md)
	@$(RUN) -m tests.crash --seeds $(SEEDS) --at-once $(AT_ONCE) $(if $(CLUSTER),--cluster)

brokers: setup-tests  ## what rests on a broker, on another release: make brokers KAFKA=3.6.2 (docs/brokers.md)
	@$(RUN) -m tests.brokers --kafka $(KAFKA)

model: setup-tests    ## the protocol's model in its large sizes: hours (docs/model/README.md)
	@$(RUN) docs/model/verify.py --large

mutants: setup-tests  ## change each rule in every small way; a test must notice: make mutants MODULE=lifecycle/decisions.py
	@$(RUN) -m tests.mutants --at-once $(AT_ONCE) $(MODULE)

check: setup-tests    ## style, types, directions of imports
	@.venv/bin/ruff check . && .venv/bin/ruff format --check . && .venv/bin/mypy && .venv/bin/lint-imports --no-cache

setup:                ## what everything needs: Java, Spark, the broker's jars
	@$(PYTHON) -m demo.set_up

setup-collector:      ## what the collector and the app need for a cluster of your own: neither Java nor Spark
	@$(PYTHON) -m demo.set_up --collector

setup-tests:
	@$(PYTHON) -m demo.set_up --tests

lock: setup-tests     ## write requirements/*.lock from pyproject.toml, and jars.lock from ivy.xml
	@echo "uv" | $(LOCK) - -o requirements/uv.lock
	@$(LOCK) pyproject.toml --all-extras --group development -o requirements/development.lock
	@$(LOCK) pyproject.toml --all-extras -c requirements/development.lock -o requirements/all.lock
	@$(LOCK) pyproject.toml --extra mysql --extra postgres --extra zookeeper --extra msk --extra mcp --extra s3 \
		-c requirements/development.lock -o requirements/collector.lock
	@$(RUN) -m demo.jars

openapi: setup-tests  ## write docs/openapi.json from what the collector serves
	@$(RUN) -m tests.openapi_document

release: setup-tests  ## wheel, sdist and CycloneDX's list of what the watcher consists of, checked, in dist
	@rm -rf $(DIST) .run/release
	@.venv/bin/hatchling build --target sdist --target wheel --directory $(DIST)
	@.venv/bin/uv venv --quiet --python $(RUN) .run/release
	@.venv/bin/uv pip install --quiet --python .run/release --require-hashes -r requirements/collector.lock
	@.venv/bin/uv pip install --quiet --python .run/release --no-deps $(DIST)/*.whl
	@.run/release/bin/indoubt --version
	@sed 's/^dynamic = .*/version = "'$$(.venv/bin/hatchling version)'"/' pyproject.toml > .run/release/pyproject.toml
	@.venv/bin/cyclonedx-py environment --pyproject .run/release/pyproject.toml --mc-type application \
		--output-reproducible --output-file $(DIST)/indoubt.cdx.json .run/release/bin/python
	@.venv/bin/twine check --strict $(DIST)/*.whl $(DIST)/*.tar.gz

helm:                 ## build Helm, which tests of the chart need, from its source: needs Go, takes minutes
	@GOBIN=$(CURDIR)/.run/bin CGO_ENABLED=0 go install -gcflags=all="-N -l" -ldflags="-s -w" $(HELM)

clean:                ## remove what setup, runs and releases made
	rm -rf .venv .run dist
