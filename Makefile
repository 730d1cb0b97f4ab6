# What a newcomer and a developer type. `make` alone lists it.
.DEFAULT_GOAL := help
SHELL := /bin/bash

# Passed on by demo, test, bench, soak and lock: make demo ARGS="--seconds 10"
ARGS ?=
# Processes that share the tests out; 0 runs them in one. Three more than cores, as many tests wait. They
# take the files in the order of tests/conftest.py.
WORKERS ?= $(shell echo $$(($$(nproc) + 3)))
SHARED_OUT = -n $(WORKERS) --dist loadfile --no-loadscope-reorder
PYTHON ?=
export PYTHON
# Hundreds of processes of the tests would compile every module again, and each of those that share them
# out the tests too: half of what they need.
unexport PYTHONDONTWRITEBYTECODE
# Debian keeps mosquitto where an ordinary user's PATH does not look.
export PATH := $(PATH):/usr/sbin:/usr/local/sbin

BIN := .venv/bin

# Of the worlds only those of a hard kind, `make soak` has others too.
COMPILED_TESTS = $(addprefix tests/,frames packets core storage/journal transports presence) tests/simulation/test_worlds.py

# Whether `make test` has the tests of the tables too: yes, no, or auto, where Spark is installed or the
# machine is one for it (.ci/fits-spark.sh).
SPARK ?= auto

.PHONY: help setup compile demo quick test check bench soak brokers-test dtls-test docs lock wheel home-assistant-app deb deb-all deb-test fresh-test home-test release clean
.PHONY: compiled-test spark-setup spark-demo spark-test spark-test-if-wanted kafka-test kafka-test-if-there

# `make help` lists targets with a `## `, below the last `##@ ` before them.

##@ First use

help: ## list what can be made
	@echo "Tidegate: MQTT-SN sensors to an MQTT 5 broker. Begin with: make demo"
	@awk -F ':.*## ' '/^##@ / { printf "\n%s\n", substr($$0, 5) } \
	  /^[a-z-]+:.*## / { printf "  make %-14s %s\n", $$1, $$2 }' $(MAKEFILE_LIST)

setup: ## make .venv and install what is missing; the others do it themselves
	@bash .ci/setup.sh

demo: setup ## five simulated sensors, a broker and the gateway, live in this terminal
	@$(BIN)/tidegate demo $(ARGS)

spark-setup: setup ## add Spark to .venv, half a gigabyte; only the tables need it
	@bash .ci/setup-spark.sh

spark-demo: spark-setup ## a day of made-up sensors through the whole chain, and a page of it
	@$(BIN)/python -m spark_ingest demo $(ARGS)

##@ Every day

# BASE=main counts all of a branch as changed.
quick: setup ## after each change, a minute: lint, layers, types, tests of the core and where the change is
	@bash .ci/quick.sh

compile: setup ## compile what every message goes through again, after a change of it; a minute
	@$(BIN)/python .ci/compile.py --if-needed $(ARGS)

##@ Before handing in

check: setup ## lint, format, words, layers and types, exactly as CI does
	@$(BIN)/ruff check .
	@$(BIN)/ruff format --check .
	@$(BIN)/python .ci/words.py
	@if [[ -x $(BIN)/lint-imports ]]; then $(BIN)/lint-imports --no-logo; \
	else echo "layers not checked: import-linter has no build for this machine, any 64-bit one has"; fi
	@if [[ -x $(BIN)/mypy ]]; then $(BIN)/mypy; \
	else echo "types not checked: mypy has no build for this machine, any 64-bit one has"; fi

# A part of the tests cannot cover the core whole, so with ARGS coverage is not measured.
test: setup ## all tests but the soak tests, ten minutes; ARGS="-k name" for some
	@bash .ci/browser.sh
	@bash .ci/setup-types.sh
	@bash .ci/setup-micropython.sh
	@bash .ci/setup-docs.sh
	@bash .ci/setup-release.sh || true # tests that need it say so
	@$(BIN)/python -m pytest -m "not soak" $(SHARED_OUT) \
	  --ignore tests/spark_ingest/with_spark --ignore tests/spark_ingest/with_kafka $(or $(ARGS),--cov)
	@$(if $(ARGS),,$(MAKE) --no-print-directory compiled-test spark-test-if-wanted kafka-test-if-there)

# The same tests on what `tidegate run` takes where it was compiled, with the allocator that looks
# whether memory was written to where it is nothing's.
compiled-test: setup ## the tests of what is compiled, on the compiled modules
	@form=$$($(BIN)/python -c 'from gateway.host.compiled import found; print(found({})[0].value)'); \
	if [[ $$form == compiled ]]; then \
	  PYTHONMALLOC=debug TIDEGATE_COMPILED=yes $(BIN)/python -m pytest -m "not soak" $(SHARED_OUT) $(COMPILED_TESTS) \
	    $(or $(ARGS),-k "not every_world and not full_of_trouble"); \
	else echo "The tests on compiled modules were left out, they are $$form"; fi

# In one process: a Spark session takes ten seconds to start, and a gigabyte.
spark-test: spark-setup ## the tests of the tables, a minute or two
	@$(BIN)/python -m pytest -m "not soak" tests/spark_ingest/with_spark $(ARGS)

spark-test-if-wanted:
	@if [[ $(SPARK) == yes ]] || \
	  { [[ $(SPARK) == auto ]] && bash .ci/fits-spark.sh && bash .ci/setup-spark.sh; }; then \
	  $(MAKE) --no-print-directory spark-test; \
	else echo "The tests of the tables need Spark and were left out:  make spark-test"; fi

##@ Long runs

# All parts, half an hour, into docs/performance.md; with ARGS the matrix alone: make bench ARGS="--quick"
bench: setup ## rate, CPU per message, latency and memory against a real mosquitto, half an hour
	@if ! command -v gcc >/dev/null; then \
	  echo "make bench compiles its load generator:  sudo apt-get install gcc libc6-dev" >&2; \
	  exit 69; fi
	@if [[ $${TIDEGATE_COMPILED:-} != no ]]; then $(BIN)/python .ci/compile.py --if-needed || true; fi
	@$(BIN)/python -m $(if $(ARGS),tests.bench $(ARGS),tests.bench.everything --write-docs --json build/bench/json)

soak: export TIDEGATE_STARTS = cold
soak: setup ## the long tests, and bare machines: some hours
	@$(if $(ARGS),,$(BIN)/python -m tests.home_assistant.installing || [[ $$? == 69 ]]) # its tests are skipped then
	@$(BIN)/python -m pytest -m soak $(ARGS)
	@$(if $(ARGS),,$(MAKE) --no-print-directory compiled-test ARGS="--timeout 1200")
	@$(if $(ARGS),,$(MAKE) --no-print-directory compiled-test ARGS="-m soak -k every_world")
	@$(if $(ARGS),,$(BIN)/python -m pytest -m "hypothesis and not soak" --hypothesis-profile new --timeout 1200 \
	  $(SHARED_OUT) --ignore tests/spark_ingest/with_spark --ignore tests/spark_ingest/with_kafka)
	@$(if $(ARGS),,$(BIN)/python -m tests.fresh || [[ $$? == 69 ]]) # 69: it cannot be run here, and said why

# With ARGS only those brokers: make brokers-test ARGS="mochi artemis". What cannot be installed is left out.
brokers-test: setup ## one suite at each MQTT 5 broker that can be installed, into docs/brokers.md; at first half an hour
	@$(BIN)/python -m tests.brokers run $(ARGS)

# Kept in build/dtls_clients. With ARGS only those clients: make dtls-test ARGS="pion tinydtls".
dtls-test: setup ## DTLS by clients that were not written here, five minutes; builds them first, ten minutes more
	@$(BIN)/python -m tests.dtls_clients $(ARGS)

# Debian 12 and 13 in folders, amd64 as root and as a user without sudo, arm64 and armhf emulated; as root.
# With ARGS some machines, or shorter: make fresh-test ARGS="--quick debian-12-user"; ARGS=--list lists them.
fresh-test: setup ## README's commands on bare machines, into docs/machines.md; two hours and more
	@$(BIN)/python -m tests.fresh $(ARGS)

# Home Assistant is kept in build/home, or where TIDEGATE_HOME names. It needs root.
home-test: setup ## the tests beside a real Home Assistant, half an hour; installs one first, ten minutes more
	@bash .ci/browser.sh
	@$(BIN)/python -m tests.home_assistant.installing
	@$(BIN)/python -m pytest -m soak tests/home_assistant $(ARGS)

# In a process of its own as well: its Spark session has Kafka's connector.
kafka-test: spark-setup ## the tests with a real Kafka, five minutes; fetches 50 MiB of it by Maven
	@bash .ci/setup-kafka.sh
	@$(BIN)/python -m pytest -m "not soak" tests/spark_ingest/with_kafka $(ARGS)

kafka-test-if-there:
	@if [[ $(SPARK) != no && -e .venv/.spark-ready ]] && bash .ci/setup-kafka.sh --look 2>/dev/null; then \
	  $(MAKE) --no-print-directory kafka-test; \
	else echo "The tests with Kafka need a Kafka, by Maven, and were left out:  make kafka-test"; fi

##@ Packages and upkeep

# A warning is a failure: a dead link, a page in no list, a docstring with an odd form.
docs: setup ## build the documentation site into build/site, a minute; works from the disk, without a network
	@bash .ci/setup-site.sh
	@rm -rf build/site
	@$(BIN)/python -m sphinx --fail-on-warning --quiet --fresh-env --conf-dir docs/site --doctree-dir build/site-doctrees . build/site
	@$(BIN)/python -m docs.site.built build/site
	@echo "build/site/index.html; links to other hosts are listed in build/site/external_links.txt"

# As .ci/deb.py has it: one commit gives one file.
wheel: export SOURCE_DATE_EPOCH ?= $(or $(shell git log -1 --format=%ct 2>/dev/null),1580601600)
wheel: setup ## build dist/tidegate-*.whl
	@$(BIN)/python -m hatchling build -t wheel

deb: setup ## build dist/tidegate_*.deb for this machine; ARCH=arm64, armhf or amd64 for another one
	@$(BIN)/python .ci/deb.py $(if $(ARCH),--arch $(ARCH)) $(ARGS)

# Compiled modules of all are inside, for the Pythons of Debian 12 and 13; fetches cross-compilers.
deb-all: setup ## build the .deb of amd64, arm64 and armhf with compiled modules, ten minutes
	@for arch in amd64 arm64 armhf; do $(BIN)/python .ci/deb.py --arch $$arch --compile $(ARGS) || exit 1; done

# Debian in a folder, booted with a systemd of its own where this machine can do that.
deb-test: deb ## install, run, upgrade, remove and purge the .deb in a Debian of its own; as root
	@$(BIN)/python -m pytest -m soak tests/app/service/test_deb.py $(ARGS)

home-assistant-app: setup ## put together the app (add-on) for Home Assistant, in build/home_assistant_app
	@bash .ci/home-assistant-app.sh

# It tags and sends nothing. ARGS=--dry-run only looks; ARGS=--all builds the .deb of each architecture.
release: setup ## look whether this tree can be released, build all of it and SHA256SUMS into dist/, say what is left
	@bash .ci/setup-release.sh
	@$(BIN)/python .ci/release.py $(ARGS)

lock: ## write the lock files from pyproject.toml (needs uv)
	@bash .ci/lock.sh $(ARGS)

clean: ## remove .venv, caches and everything built
	@rm -rf .venv build dist gateway/host/compiled_modules .mypy_cache .ruff_cache .pytest_cache .hypothesis .coverage .coverage.*
	@find . -name __pycache__ -type d -prune -exec rm -rf {} +
