# Each target creates the environment it needs; no set-up is required.
# A C compiler makes lmma faster; everything also works without one.

PYTHON ?= python3
VENV   := .venv
BIN    := $(VENV)/bin
PIP    := $(BIN)/python -m pip install --quiet --disable-pip-version-check

# Reinstall only when what is installed has changed: editable, so Python sources need no reinstall.
C_SOURCES := $(wildcard src/lmma/kernels/*.[ch] src/lmma/kernels/*.inc)
SOURCES := pyproject.toml setup.py lab/pyproject.toml lab/setup.py $(C_SOURCES) $(wildcard lab/src/lmma_lab/attack/*.[ch])
# One BLAS thread for each test process: more would compete for the same cores.
QUIET_BLAS := OPENBLAS_NUM_THREADS=1 OMP_NUM_THREADS=1 MKL_NUM_THREADS=1
PYTEST := $(QUIET_BLAS) $(BIN)/python -m pytest -n 2 --dist loadgroup

.PHONY: run test test-fast test-all lint sanitize bench docs docs-serve pages figure dist clean help

run: $(VENV)/.installed-plot  ## minimise an ill-conditioned function of 100 variables and plot its convergence
	@mkdir -p out
	$(BIN)/lmma minimize rotated-cigar --dim 100 --method lm-ma-es --seed 1 --plot out/convergence.png

test-fast: $(VENV)/.installed-lab-test  ## run the quick tests of both distributions: about two minutes on two cores
	$(PYTEST) --fast

test: lint docs $(VENV)/.installed-engines  ## run all checks: formatting, lint, types, layers, the site, tests
	$(PYTEST)

# Peers, COCO's functions and the long versions; then the other tests again without the compiled core.
test-all: lint sanitize $(VENV)/.installed-engines $(VENV)/.installed-lab-bench $(VENV)/.installed-lab-largescale  ## run all tests including the long ones (hours)
	$(PYTEST) --slow -rs
	LMMA_KERNELS=numpy $(PYTEST) -rs

lint: $(VENV)/.installed-lab-test  ## run the static checks
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/clang-format --dry-run --Werror $(C_SOURCES)
	$(BIN)/mypy
	$(BIN)/lint-imports

sanitize: $(VENV)/.installed-lab-test  ## run the tests of the C code under sanitizers for memory, arithmetic and threads
	$(QUIET_BLAS) $(BIN)/python tests/native.py sanitize -- -n 2
	$(QUIET_BLAS) $(BIN)/python tests/native.py threads

bench: $(VENV)/.installed-lab-bench  ## measure a generation against its parts and against peers
	$(BIN)/lmma bench cost --out out/bench

docs: $(VENV)/.installed-docs  ## build the documentation into site/; broken links are errors
	NO_MKDOCS_2_WARNING=1 $(BIN)/mkdocs build --strict --quiet

docs-serve: $(VENV)/.installed-docs  ## serve the documentation with live reload
	NO_MKDOCS_2_WARNING=1 $(BIN)/mkdocs serve

pages: $(VENV)/.installed-lab-test  ## regenerate the pages that are made from the code
	for tool in options architecture algorithm1 cli stop networks paper; do $(BIN)/python docs/tools/$$tool.py; done

dist: $(VENV)/.installed-lab-test  ## build source distributions and wheels of lmma and lmma-lab into dist/, and check them
	$(PIP) build twine abi3audit
	LMMA_REQUIRE_COMPILED=1 $(BIN)/python -m build
	LMMA_REQUIRE_COMPILED=1 $(BIN)/python -m build --outdir dist lab
	$(BIN)/twine check --strict dist/*
	$(BIN)/abi3audit --strict dist/*.whl

figure: $(VENV)/.installed-plot  ## redraw the picture of the README
	$(BIN)/python docs/tools/hero.py

clean:  ## remove all build products
	rm -rf $(VENV) out build lab/build dist site src/*.egg-info lab/src/*.egg-info .pytest_cache .mypy_cache .ruff_cache \
	    .import_linter_cache .hypothesis
	find src lab tests examples -name __pycache__ -prune -exec rm -rf {} +
	find src lab -name '*.so' -delete

help:  ## list the targets
	@grep -E '^[a-z-]+:.*##' $(MAKEFILE_LIST) | sed -E 's/:.*## /\t/' | expand -t 10

$(VENV)/bin/python:
	$(PYTHON) -m venv $(VENV)

# Clusters are tested where their engines install; where one does not, its tests are skipped and say so.
ENGINES := dask ray mpi
$(VENV)/.installed-engines: $(VENV)/.installed-lab-test
	@for engine in $(ENGINES); do \
	    $(PIP) --editable ".[$$engine]" || echo "lmma[$$engine] does not install here: its tests will be skipped"; \
	done
	@$(PIP) mpich || echo "no MPI from a wheel: the tests of MPI need mpiexec"
	@touch $@

# Both distributions, with an extra of the lab or of lmma.
$(VENV)/.installed-lab-%: $(VENV)/bin/python $(SOURCES)
	$(PIP) --editable . --editable './lab[$*]'
	@touch $@

$(VENV)/.installed-%: $(VENV)/bin/python $(SOURCES)
	$(PIP) --editable '.[$*]' --editable ./lab
	@touch $@
