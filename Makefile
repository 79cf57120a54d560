# `make` alone lists what there is. Every target does its own set-up, once: what is installed is
# remembered in .venv/.ready-*, and looked at again when the lock file or the script changes.
ENGINE ?= arrow
ONLY ?=
BENCH_SCALE ?= 1

ifeq ($(filter arrow spark,$(ENGINE)),)
$(error ENGINE=$(ENGINE) is unknown: arrow or spark)
endif

BIN := .venv/bin
READY := .venv/.ready
SETUP := scripts/setup.sh
LOCKED := pyproject.toml uv.lock $(SETUP)
SPARK_TESTS := cdc_assets_tests/engines/spark
READY_DEMO := $(READY)-$(if $(filter spark,$(ENGINE)),spark,sandbox)
READY_TEST := $(READY)-$(if $(filter fast,$(ONLY)),dev,all)
# Two processes, the tests of one file in one of them. A process has one Spark of its own, which its
# tests share: what runs on a cluster's is a run of its own.
SIDE_BY_SIDE := -n 2 --dist loadfile --no-loadscope-reorder
NO_JVM := not spark and not cluster and not clients and not soak
# Two minutes: the rooms by themselves, and a table's way through them.
ROOMS := benchmarks engines finality hall ingest lake planning sandbox/engine sandbox/language sqlserver
FAST := $(addprefix cdc_assets_tests/,$(ROOMS) path/test_path.py path/test_recovery.py)

# Where it is set, each command line that a test or a person starts compiles all that it imports:
# a second of Dagster's, each time.
unexport PYTHONDONTWRITEBYTECODE

.DEFAULT_GOAL := help
.PHONY: help setup setup-spark demo dev test test-thorough test-clients test-sqlserver soak check bench clean
.NOTPARALLEL:

help: ## list the targets
	@awk -F':.*## ' '/^[a-z-]+:.*## / {printf "  make %-13s %s\n", $$1, $$2}' Makefile

setup: ## install what the demo needs: system libraries, .venv, the locked packages
	@$(SETUP) sandbox
	@touch $(READY)-sandbox

setup-spark: ## the same with Spark: Java and PySpark too
	@$(SETUP) sandbox spark
	@touch $(READY)-sandbox $(READY)-spark

demo: $(READY_DEMO) ## load, change and compare three tables, end to end (ENGINE=arrow|spark)
	@$(BIN)/cdc-assets demo --engine $(ENGINE)

dev: $(READY)-sandbox ## the sandbox and Dagster's web page, until Ctrl-C
	@$(BIN)/cdc-assets up

test: $(READY_TEST) check ## all checks, and the tests of each promise (ONLY=fast: two minutes, no JVM)
ifeq ($(ONLY),fast)
	$(BIN)/pytest $(SIDE_BY_SIDE) -m "$(NO_JVM) and not thorough and not slow" --ignore=$(SPARK_TESTS) $(FAST)
	@echo "ONLY=fast ran $(FAST) without what needs PySpark or a JVM; make test runs all"
else
	$(BIN)/pytest $(SIDE_BY_SIDE) -m "$(NO_JVM) and not thorough"
	$(BIN)/pytest $(SIDE_BY_SIDE) -m "spark and not soak and not thorough"
	$(BIN)/pytest -m "cluster and not thorough"
	@echo "make test-thorough runs what cdc_assets_tests/thorough.py names"
endif

test-thorough: $(READY_TEST) ## the same promises at more points and on both engines (ONLY=fast: no JVM)
	$(BIN)/pytest $(SIDE_BY_SIDE) -m "$(NO_JVM) and thorough"
ifneq ($(ONLY),fast)
	$(BIN)/pytest $(SIDE_BY_SIDE) -m "spark and not soak and thorough"
	$(BIN)/pytest -m "cluster and thorough"
endif

test-clients: $(READY)-clients ## with programs of others: a browser, Postgres, drivers of other languages
	$(BIN)/pytest $(SIDE_BY_SIDE) -m clients

test-sqlserver: ## those of them that a real server passes (CDC_TEST_CONNECTION_STRING names it)
ifndef CDC_TEST_CONNECTION_STRING
	@echo "test-sqlserver: set CDC_TEST_CONNECTION_STRING to the ODBC connection string of an" \
		"administrator; docker/sqlserver.compose.yaml starts a server" >&2; exit 1
endif
	@$(MAKE) --no-print-directory $(READY_TEST)
	$(BIN)/pytest -m "sqlserver$(if $(filter fast,$(ONLY)), and not spark)"

soak: $(READY)-all ## the long tests: hours (ONLY=fast: no JVM, ONLY=histories: 10,000 of them)
ifeq ($(ONLY),histories)
	$(BIN)/pytest -n 2 -m "soak and not spark" --timeout 0 cdc_assets_tests/properties
else
	$(BIN)/pytest -m "soak$(if $(filter fast,$(ONLY)), and not spark)" --timeout 0
endif

check: $(READY)-dev ## lint, format, types, the lock file, and which room may import which
	$(BIN)/ruff check --quiet .
	$(BIN)/ruff format --quiet --check .
	$(BIN)/mypy
	$(BIN)/uv lock --quiet --check --python $(BIN)/python
	$(BIN)/lint-imports --no-logo

bench: $(READY)-all ## measure (ONLY=name,name for some, BENCH_SCALE=0.1 for a quick look)
	@ONLY="$(ONLY)" BENCH_SCALE="$(BENCH_SCALE)" $(BIN)/python -m benchmarks

clean: ## remove what the demo and the tools wrote; .venv stays
	rm -rf .cdc .pytest_cache .mypy_cache .ruff_cache .import_linter_cache .hypothesis \
		.tmp_dagster_home_* spark-warehouse metastore_db derby.log
	find . -name __pycache__ -not -path './.venv/*' -prune -exec rm -rf {} +

# One call of the script for each set of parts, so that all that is missing is named at once.
$(READY)-sandbox: $(LOCKED)
	@$(SETUP) sandbox
	@touch $@

$(READY)-spark: $(LOCKED)
	@$(SETUP) sandbox spark
	@touch $(READY)-sandbox $@

$(READY)-dev: $(LOCKED)
	@$(SETUP) sandbox dev
	@touch $(READY)-sandbox $@

$(READY)-clients: $(LOCKED)
	@$(SETUP) sandbox dev clients
	@touch $(READY)-sandbox $(READY)-dev $@

$(READY)-all: $(LOCKED)
	@$(SETUP) sandbox spark dev
	@touch $(READY)-sandbox $(READY)-spark $(READY)-dev $@
