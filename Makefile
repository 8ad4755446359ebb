# Headrace: everything a developer runs. `make help` lists it.
PYTHON ?= python3
ARGS ?=
# Processes that share the tests: planning keeps one core busy each. 0: in this process, for a debugger.
WORKERS ?= 2

VENV := .venv
BIN := $(VENV)/bin
JARS := .headrace/jars
INSTALLED := $(VENV)/.installed
RESOLVED := $(JARS)/.resolved
LOCK := $(BIN)/uv pip compile --quiet --universal --python-version 3.11 --no-emit-index-url --generate-hashes \
	--no-annotate --custom-compile-command "make lock" pyproject.toml

# A machine that has told pip where its packages are need not tell uv again.
ifdef PIP_INDEX_URL
export UV_DEFAULT_INDEX ?= $(PIP_INDEX_URL)
endif
export UV_HTTP_TIMEOUT ?= 300
# Tests and demos start hundreds of Python processes. Each would compile all that it imports, one to three CPU seconds.
unexport PYTHONDONTWRITEBYTECODE

# The site, and all that it is made of: pages, and the code that the reference shows.
SITE := .headrace/site
RELEASE := .headrace/release
NEWEST := .headrace/newest
PAGES = mkdocs.yml $(wildcard *.md deploy/README.md benchmarks/*.md) $(shell find docs platform -name '*.md' -o -name '*.py' -o -name '*.png')

# Tests start JVMs that live for minutes: the quick compiler alone is twice as fast there. Its default cache fills up, and nothing is compiled any more;
# and each time that the room for classes grows, all objects are collected.
SHORT_LIVED_JVM := -XX:TieredStopAtLevel=1 -XX:ReservedCodeCacheSize=240m -XX:+UseSerialGC -XX:MetaspaceSize=256m
# Classes of Spark's JVM and of the broker's, ready to be mapped; a JVM with another class path goes on without them, and silently.
CLASSES := $(CURDIR)/.headrace/classes
TEST_JVMS = JDK_JAVA_OPTIONS="$(SHORT_LIVED_JVM) -XX:SharedArchiveFile=$(CLASSES)/spark.jsa -Xlog:disable" \
	KAFKA_OPTS="-XX:SharedArchiveFile=$(CLASSES)/broker.jsa"

.DEFAULT_GOAL := help
.PHONY: help setup demo demo-cluster demo-once tour classes test test-long test-fast faults lives mutations check guard bench cases newest sbom audit docs tutorial wheel lock clean again

help: ## List what make can do
	@awk 'BEGIN {FS = ":.*## "} /^[a-z-]+:.*## / {printf "  make %-12s %s\n", $$1, $$2}' $(MAKEFILE_LIST)

setup: $(INSTALLED) $(RESOLVED) ## Make .venv from the lock and fetch the jars; quick when nothing changed
	@$(if $(filter setup,$(MAKECMDGOALS)),echo "setup: ready",:)

demo: setup ## Broker, schema registry, traffic, stream and the Dagster UI on this machine; Ctrl-C stops all of it
	@$(BIN)/headrace demo $(ARGS)

demo-cluster: setup ## The demo with a Spark cluster, the lake on S3 and Dagster on PostgreSQL, all on this machine
	@$(BIN)/headrace demo --cluster $(ARGS)

demo-once: setup ## The same once and without the UI: produce, stream, backfill, check, print the proof
	@$(BIN)/headrace demo-once $(ARGS)

tour: setup ## Take docs/tour.md's pictures of a demo that runs; needs chromium; ARGS="graph" takes one
	@$(BIN)/python -m docs.tour $(ARGS)

classes: $(CLASSES)/.made ## Archive the classes of the tests' JVMs; `make test` does it, too

test: setup $(CLASSES)/.made ## Run the tests, all but the long ones; ARGS="-k broker" selects
	@$(TEST_JVMS) $(BIN)/python -m pytest -m "not long" -n $(WORKERS) --dist loadfile --no-loadscope-reorder --durations=25 $(ARGS)

test-long: setup $(CLASSES)/.made ## Run what takes minutes, and rarer combinations; before a release
	@$(TEST_JVMS) $(BIN)/python -m pytest -m long -n $(WORKERS) --dist loadfile --durations=25 $(ARGS)

test-fast: setup ## Run the tests that need neither Spark nor a broker, for every save; `make check` has those of tests/tidy
	@$(BIN)/python -m pytest -q -m "fast and not slow" --ignore=tests/tidy -n $(WORKERS) --dist loadfile --no-loadscope-reorder $(ARGS)

faults: setup $(CLASSES)/.made ## Go on with the matrix of faults; ARGS="--only SIGKILL --minutes 30", "--table"; see docs/reliability.md
	@$(TEST_JVMS) $(BIN)/python -m tests.faults.matrix $(ARGS)

lives: setup ## Live on through random lives, without a JVM; ARGS="--minutes 30", "--seed 7"; see docs/guides/testing.md
	@$(BIN)/python -m tests.lives.many $(ARGS)

mutations: setup ## Take out mends of past defects one by one, and let lives find that; ARGS="--only NAME --lives 5000"
	@$(BIN)/python -m tests.lives.mutations $(ARGS)

check: guard setup ## Lint, formatting, types, layout
	@$(BIN)/ruff check .
	@$(BIN)/ruff format --check .
	@$(BIN)/mypy
	@$(BIN)/python -m pytest -q tests/tidy

bench: setup ## Measure catch-up; ARGS="--descriptions", "--state-reads", "--processors", "--memory", "--formats", "--nexmark", "--compared", "--transfers" (beside Kafka Streams and Flink SQL)
	@$(BIN)/python -m benchmarks $(ARGS)

wheel: setup ## Build the wheel in dist/; `headrace new my_streams` makes a project from it
	@$(BIN)/python -m hatchling build --target wheel --directory dist

newest: setup ## Run the fast tests, and some of Spark's, with the newest version of each dependency that pyproject.toml allows
	@$(BIN)/uv venv --quiet --clear --python $(BIN)/python $(NEWEST)
	@$(BIN)/uv pip install --quiet --python $(NEWEST)/bin/python --build-constraints requirements.lock --editable '.[dev]'
	@$(NEWEST)/bin/python -m pytest -q -m "fast and not slow" -n $(WORKERS) --dist loadfile $(ARGS)
	@$(TEST_JVMS) $(NEWEST)/bin/python -m pytest -q tests/runtime/test_generations.py

sbom: $(VENV)/.release ## Write the bill of materials of a release, as CycloneDX: packages of the lock, and jars
	@$(RELEASE)/bin/python deploy/release/sbom.py dist/headrace.cdx.json

audit: $(VENV)/.release ## Ask PyPI's advisories about each package of the lock; needs the internet; fails if one is known
	@$(RELEASE)/bin/pip-audit --strict --disable-pip --require-hashes --requirement deploy/image/requirements.lock $(ARGS)

docs: $(SITE)/.built ## Build the documentation site in .headrace/site, if a page is newer; a dead link fails
	@echo "docs: open .headrace/site/index.html; its search needs a server: python3 -m http.server -d .headrace/site"

tutorial: setup ## Do docs/tutorial.md word for word in an empty folder; takes minutes
	@$(BIN)/python -m docs.tools.tutorial

cases: ## Write the cases of Kafka Streams anew; needs Maven and Java 17
	@for class in StreamJoinCases RestartedWindows; do \
		mvn -q -B -f tests/fixtures/kafka_streams/pom.xml compile org.codehaus.mojo:exec-maven-plugin:3.5.0:java \
			-Dexec.mainClass=headrace.$$class -Dexec.args=tests/fixtures || exit 1; done

lock: $(INSTALLED) ## Resolve dependencies anew: all requirements.lock files and the jars' digests
	@$(LOCK) --extra dev --output-file requirements.lock $(ARGS)
	@$(LOCK) --extra all --constraints requirements.lock --output-file deploy/image/requirements.lock
	@$(BIN)/uv pip compile --quiet --universal --python-version 3.11 --no-emit-index-url --generate-hashes --no-annotate \
		--custom-compile-command "make lock" --constraints requirements.lock --group docs --output-file docs/requirements.lock
	@$(BIN)/uv pip compile --quiet --universal --python-version 3.11 --no-emit-index-url --generate-hashes --no-annotate \
		--custom-compile-command "make lock" --group release --output-file deploy/release/requirements.lock
	@$(BIN)/python deploy/jars/resolve.py $(JARS) --lock

$(SITE)/.built: $(VENV)/.docs $(PAGES)
	@$(BIN)/python docs/tools/pictures.py
	@NO_MKDOCS_2_WARNING=1 $(BIN)/python -m mkdocs build --strict
	@touch $@

clean: ## Remove all that setup, demo and tests made, .venv and .headrace included
	@rm -rf $(VENV) .headrace dist .hypothesis .mypy_cache .pytest_cache .ruff_cache
	@find . -name __pycache__ -type d -prune -exec rm -rf {} +

$(CLASSES)/.made: $(RESOLVED) $(INSTALLED) tests/class_archives.py platform/headrace/spark/jars.py
	@echo "test: archiving the classes of Spark and of the Kafka broker in $(CLASSES)"
	@$(BIN)/python -m tests.class_archives $(CLASSES)
	@touch $@

# Not a test: with this file in place pytest itself dies before it collects anything.
guard:
	@test ! -e platform/__init__.py || { \
	  echo "platform/__init__.py exists: it shadows the standard library's platform. Delete it." >&2; exit 1; }

# The stamp holds the place. A checkout that was moved or copied starts anew: its environment names the old one.
HERE_ALREADY := $(filter $(CURDIR),$(shell cat $(INSTALLED) 2>/dev/null))
ifndef HERE_ALREADY
$(INSTALLED): again
endif

# uv comes out of the lock like everything else, by pip and by its hash; then uv does the rest.
$(INSTALLED): requirements.lock pyproject.toml
	@sh deploy/setup/prerequisites.sh "$(PYTHON)"
	@echo "setup: installing $$(grep -c == requirements.lock) packages into $(VENV)"
	@$(if $(HERE_ALREADY),$(BIN)/python -c "" 2>/dev/null ||) "$(PYTHON)" -m venv --clear $(VENV)
	@$(BIN)/uv --version >/dev/null 2>&1 || { \
	  awk '/^[^ ]/ {take = /^uv==/} take' requirements.lock > $(VENV)/uv.lock && \
	  $(BIN)/python -m pip install --quiet --require-hashes --requirement $(VENV)/uv.lock; }
	@$(BIN)/uv pip sync --quiet --python $(BIN)/python --require-hashes --build-constraints requirements.lock \
	  requirements.lock
	@$(BIN)/uv pip install --quiet --python $(BIN)/python --no-deps --no-build-isolation --editable .
	@printf '%s\n' "$(CURDIR)" > $@

# Tools of a release have an environment of their own: their dependencies are none of ours.
$(VENV)/.release: deploy/release/requirements.lock $(INSTALLED)
	@$(BIN)/uv venv --quiet --clear --python $(BIN)/python $(RELEASE)
	@$(BIN)/uv pip install --quiet --python $(RELEASE)/bin/python --require-hashes --requirement deploy/release/requirements.lock
	@touch $@

# What builds the site, beside what is there: `make setup` stays quick.
$(VENV)/.docs: docs/requirements.lock $(INSTALLED)
	@$(BIN)/uv pip install --quiet --python $(BIN)/python --require-hashes --requirement docs/requirements.lock
	@touch $@

$(RESOLVED): deploy/jars/ivy.xml deploy/jars/SHA256SUMS deploy/jars/resolve.py | $(INSTALLED)
	@echo "setup: fetching the jars of Spark, of the Kafka broker and of the schema registry into $(JARS)"
	@$(BIN)/python deploy/jars/resolve.py $(JARS)
