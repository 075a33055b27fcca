# One virtual environment serves everything; it is made anew when pyproject.toml changes.
VENV ?= .venv
PYTHON ?= python3
BIN := $(VENV)/bin

.PHONY: test lint clean

$(VENV)/.installed: pyproject.toml
	$(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet --upgrade pip
	$(BIN)/python -m pip install --quiet --editable '.[test,lint]'
	touch $@

test: $(VENV)/.installed  ## run the tests
	$(BIN)/python -m pytest -q -n 2

# codegen joins the checked packages with its first complete version.
CHECKED := tensorir schedule search

lint: $(VENV)/.installed  ## style, types, layers
	$(BIN)/ruff format --check $(CHECKED) tests
	$(BIN)/ruff check $(CHECKED) tests
	$(BIN)/mypy $(addprefix --package ,$(CHECKED))
	$(BIN)/lint-imports
	$(BIN)/python -m schedule.stubs --check

clean:  ## remove the environment and what tools left behind
	rm -rf $(VENV) build *.egg-info .pytest_cache .mypy_cache .ruff_cache .hypothesis
