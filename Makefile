# `make demo` and `make test` need nothing but Python 3.11 to 3.13 and make; the rest they set up by themselves.
.DEFAULT_GOAL := help
.PHONY: help demo test kills soak lint bench profile docs notebooks clean
MAKEFLAGS += --no-print-directory

VENV := .venv
BIN := $(VENV)/bin
JOBS ?= 2
READY := $(VENV)/.ready
READY_FOR_DEMO := $(VENV)/.ready-for-demo

# Spark starts its Python workers itself: they must be the environment's Python too. A bench or a test that is run by hand
# with the environment active needs none of this.
SPARK := JAVA_HOME="$$(scripts/find-java.sh)" && export JAVA_HOME && \
	PATH="$(abspath $(BIN)):$$PATH" PYSPARK_PYTHON="$(abspath $(BIN))/python" SPARK_CONF_DIR="$(CURDIR)/conf"

help:  ## Show this list
	@awk -F ':.*## ' '/^[a-z]+:.*## / {printf "  make %-10s %s\n", $$1, $$2}' $(MAKEFILE_LIST)

demo: $(READY_FOR_DEMO)  ## Sample this machine through three generations of a sender and read it all with Spark
	@$(SPARK) $(BIN)/python demo/monitor.py

test: $(READY)  ## Lint and run all tests, JOBS=2 files at a time; LONG=1 runs their thorough forms
	@status=0; $(MAKE) lint || status=1; \
	$(SPARK) $(if $(LONG),PBIO_LONG=1) $(BIN)/python -m pytest -n $(JOBS) --dist loadfile || status=1; exit $$status

kills: $(READY)  ## Kill writers, Spark streams, subscribers and gateways KILLS times (100) while code and parameters change
	@$(SPARK) PBIO_KILLS=$(or $(KILLS),100) $(BIN)/python -m pytest -s tests/gateways/grid/test_kills.py \
		tests/gateways/evpath/test_kills.py tests/channels/derive/test_kills.py tests/channels/concentrator/test_kills.py \
		tests/source/channels/test_kills.py

soak: $(READY)  ## Run the long forms of tests of channels and gateways only; ONLY=tests/gateways picks some
	@$(SPARK) PBIO_LONG=1 $(BIN)/python -m pytest $(or $(ONLY),tests/channels tests/source/channels/test_kills.py tests/gateways)

lint: $(READY)  ## ruff and mypy --strict
	@status=0; $(BIN)/ruff check --quiet . || status=1; $(BIN)/ruff format --check . || status=1; \
	$(BIN)/mypy || status=1; exit $$status

bench: $(READY)  ## Benchmarks, two things side by side; ONLY="decode encode" picks some, CLOCK=cpu takes processor time
	@$(SPARK) BENCH_CLOCK=$(or $(CLOCK),wall) $(BIN)/python -m benchmarks $(ONLY)

profile: $(READY)  ## Where the time of tasks goes; WHAT=write (or read, write-channel, stream-in, stream-out), KIND=list picks rows
	@$(SPARK) $(BIN)/python -m benchmarks.spark.stages $(or $(WHAT),write) $(KIND)

docs: $(READY)  ## Write the pages of docs/ that are generated from code
	@$(BIN)/python docs/reference/generate.py

notebooks: $(READY)  ## Run the notebooks, and store with them what they show
	@$(SPARK) $(BIN)/python -m tests.test_notebooks

clean:  ## Remove the environment and everything that can be made again
	rm -rf $(VENV) .mypy_cache .pytest_cache .ruff_cache .hypothesis build dist spark-warehouse metastore_db derby.log
	find . -name __pycache__ -type d -prune -exec rm -rf {} +

$(READY_FOR_DEMO): EXTRAS := spark
$(READY): EXTRAS := test
$(READY) $(READY_FOR_DEMO): pyproject.toml
	@python="$$(scripts/find-python.sh)" && echo "Setting up $(VENV) with $$python ..." && "$$python" -m venv $(VENV)
	@$(BIN)/python -m pip install --disable-pip-version-check --editable '.[$(EXTRAS)]'
	@touch $(READY_FOR_DEMO) $@
