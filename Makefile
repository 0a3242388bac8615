# Each target makes the environment it needs; nothing has to be done first.
# A C compiler makes lmma faster; without one everything works all the same.

PYTHON ?= python3
VENV   := .venv
BIN    := $(VENV)/bin

# Reinstall only when what is installed has changed: editable, so Python sources need no reinstall.
SOURCES := pyproject.toml setup.py $(shell find src/lmma -name '*.c' -o -name '*.h')
# One BLAS thread for each test process: more would only get into one another's way.
QUIET_BLAS := OPENBLAS_NUM_THREADS=1 OMP_NUM_THREADS=1 MKL_NUM_THREADS=1

.PHONY: run test test-all lint sanitize bench docs docs-serve pages figure dist clean help

run: $(VENV)/.installed-plot  ## minimise an ill-conditioned function of 100 variables and draw how it went
	@mkdir -p out
	$(BIN)/lmma minimize rotated-cigar --dim 100 --method lm-ma-es --seed 1 --plot out/convergence.png

test: lint docs $(VENV)/.installed-engines  ## run all checks: formatting, lint, types, layers, the site, tests
	$(QUIET_BLAS) $(BIN)/python -m pytest -n 2 --dist loadgroup

# Peers, COCO's functions and the long versions; then the fast tests again without the compiled core.
test-all: lint sanitize $(VENV)/.installed-engines $(VENV)/.installed-bench $(VENV)/.installed-largescale  ## run every test there is; takes hours
	$(QUIET_BLAS) $(BIN)/python -m pytest -n 2 --dist loadgroup --slow -rs
	$(QUIET_BLAS) LMMA_KERNELS=numpy $(BIN)/python -m pytest -n 2 --dist loadgroup -rs

lint: $(VENV)/.installed-test  ## run the checks that need not run the code
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/lint-imports

sanitize: $(VENV)/.installed-test  ## run the tests of the C code under sanitizers of memory, arithmetic and threads
	$(QUIET_BLAS) $(BIN)/python tests/native.py sanitize -- -n 2
	$(QUIET_BLAS) $(BIN)/python tests/native.py threads

bench: $(VENV)/.installed-bench  ## measure a generation against its parts and against peers
	$(BIN)/lmma bench cost --out out/bench

docs: $(VENV)/.installed-docs  ## build the documentation into site/; a link that leads nowhere is an error
	NO_MKDOCS_2_WARNING=1 $(BIN)/mkdocs build --strict --quiet

docs-serve: $(VENV)/.installed-docs  ## show the documentation while it is written
	NO_MKDOCS_2_WARNING=1 $(BIN)/mkdocs serve

pages: $(VENV)/.installed-test  ## make the pages again that are made from the code
	for tool in options architecture algorithm1 cli stop networks paper; do $(BIN)/python docs/tools/$$tool.py; done

dist: $(VENV)/.installed-test  ## build the source distribution and a wheel into dist/, and check them
	$(BIN)/python -m pip install --quiet --disable-pip-version-check build twine abi3audit
	LMMA_REQUIRE_COMPILED=1 $(BIN)/python -m build
	$(BIN)/twine check --strict dist/*
	$(BIN)/abi3audit --strict dist/*.whl

figure: $(VENV)/.installed-plot  ## draw the picture of the README again
	$(BIN)/python docs/tools/hero.py

clean:  ## remove all that was made
	rm -rf $(VENV) out build dist site src/*.egg-info .pytest_cache .mypy_cache .ruff_cache \
	    .import_linter_cache .hypothesis
	find src tests examples -name __pycache__ -prune -exec rm -rf {} +
	find src -name '*.so' -delete

help:  ## list the targets
	@grep -E '^[a-z-]+:.*##' $(MAKEFILE_LIST) | sed -E 's/:.*## /\t/' | expand -t 10

$(VENV)/bin/python:
	$(PYTHON) -m venv $(VENV)

# Clusters are tested where their engines install; where one does not, its tests are skipped and say so.
ENGINES := dask ray mpi
$(VENV)/.installed-engines: $(VENV)/.installed-test
	@for engine in $(ENGINES); do \
	    $(BIN)/python -m pip install --quiet --disable-pip-version-check --editable ".[$$engine]" \
	        || echo "lmma[$$engine] does not install here: its tests will be skipped"; \
	done
	@$(BIN)/python -m pip install --quiet --disable-pip-version-check mpich \
	    || echo "no MPI from a wheel: the tests of MPI need mpiexec"
	@touch $@

$(VENV)/.installed-%: $(VENV)/bin/python $(SOURCES)
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --editable '.[$*]'
	@touch $@
