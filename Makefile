# One virtual environment serves everything; each command adds what it needs, once, and again when
# pyproject.toml changes.
VENV ?= .venv
PYTHON ?= python3
BIN := $(VENV)/bin
# Single-threaded comparisons with NumPy; the project's own threads follow the target.
ONE_THREAD := OPENBLAS_NUM_THREADS=1 MKL_NUM_THREADS=1 OMP_NUM_THREADS=1
# The machine that `make test-made-up-host` makes up: AVX2, 32 KiB of L1, one core.
MADE_UP_HOST := mcpu=x86-64-v3,l1=32768,l2=524288,l3=33554432,cores=1

.PHONY: tune test test-made-up-host lint bench bench-primitives bench-suite bench-models notebooks docs dist try-dist clean

$(VENV)/.created:
	$(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet --upgrade pip
	touch $@

$(VENV)/.installed: pyproject.toml $(VENV)/.created
	$(BIN)/python -m pip install --quiet --editable .
	touch $@

$(VENV)/.installed-%: $(VENV)/.installed
	$(BIN)/python -m pip install --quiet --editable '.[$*]'
	touch $@

tune: $(VENV)/.installed  ## tune the README's matmul: 64 trials
	$(BIN)/python -m benchmarks.matmul

# Tests of what extras are for are skipped where the extra is not installed.
TEST_EXTRAS := $(addprefix $(VENV)/.installed-,test browser distributed sql opencl cuda)

test: $(TEST_EXTRAS)  ## run the tests
	$(BIN)/python -m pytest -q -n 3 --dist loadfile

test-made-up-host: $(TEST_EXTRAS)  ## run the tests as on a smaller machine
	TENSORIR_HOST=$(MADE_UP_HOST) $(BIN)/python -m pytest -q -n 3 --dist loadfile

PACKAGES := tensorir schedule codegen search
CHECKED := $(PACKAGES) tests benchmarks notebooks docs

lint: $(VENV)/.installed-lint  ## style, types, layers
	$(BIN)/ruff format --check $(CHECKED)
	$(BIN)/ruff check $(CHECKED)
	$(BIN)/mypy $(addprefix --package ,$(PACKAGES))
	$(BIN)/lint-imports
	$(BIN)/python -m schedule.stubs --check

bench: $(VENV)/.installed  ## measure the budgets
	$(ONE_THREAD) $(BIN)/python -m benchmarks.budgets

bench-primitives: $(VENV)/.installed  ## time every primitive, and replays of recorded traces
	$(BIN)/python -m benchmarks.primitives

bench-suite: $(VENV)/.installed-test  ## tune the suite of operators and time the kernels
	$(BIN)/python -m benchmarks.suite

# Interpreters that have torch or onnxruntime, if any: make bench-models PEERS=../torchenv/bin/python
PEERS ?=
bench-models: $(VENV)/.installed-onnx $(VENV)/.installed-torch  ## tune networks and time them beside other runtimes
	$(BIN)/python -m benchmarks.models $(addprefix --peer ,$(PEERS))

notebooks: $(TEST_EXTRAS) $(VENV)/.installed-notebook  ## execute the notebooks, with few trials, and solve the puzzles
	$(BIN)/python notebooks/execute.py --check
	TENSORIR_JUPYTERLAB=1 $(BIN)/python -m pytest -q tests/notebooks tests/search/explorer/test_in_jupyterlab.py

# What draws diagrams in the browser; without npm the pages show how they are written.
MERMAID := 11.17.2
build/mermaid.min.js:
	mkdir -p build
	-cd build && npm pack --silent mermaid@$(MERMAID) && tar -xzf mermaid-$(MERMAID).tgz \
		package/dist/mermaid.min.js && mv package/dist/mermaid.min.js .

docs: $(VENV)/.installed-docs build/mermaid.min.js  ## build the site, in build/site
	$(BIN)/python docs/gather_site.py build/pages $$(ls build/mermaid.min.js 2>/dev/null)
	$(BIN)/python -m sphinx -W --keep-going -q -b html build/pages build/site

dist: $(VENV)/.installed-release  ## build the distribution, in dist
	rm -rf dist
	$(BIN)/python -m build --outdir dist .

try-dist: dist  ## install the distribution into an empty environment and use it there
	$(PYTHON) tests/installed.py dist/*.whl

clean:  ## remove the environment and what tools left behind
	rm -rf $(VENV) build dist *.egg-info .pytest_cache .mypy_cache .ruff_cache .hypothesis tune_tmp
