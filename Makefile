# Everything runs from .venv in this folder. The Java libraries of Delta and S3 are kept in ~/.cache/panekeeper
# (PANEKEEPER_CACHE names another folder), so that clones share them and only the first start asks the network.

VENV := .venv
PYTHON := $(VENV)/bin/python
PIP := $(PYTHON) -m pip --disable-pip-version-check --quiet
CODE := $(wildcard panekeeper framework state recovery examples benchmarks tests integration_tests conftest.py)

.NOTPARALLEL:
.PHONY: help demo test fast lint bench drill images clean java

help: ## Show this help
	@echo "Panekeeper: windows on Spark that survive every stop. Needs Python >= 3.11 and Java 17 or 21."
	@echo
	@awk -F ':.*## ' '/^[a-z]+:.*## / { printf "  make %-7s %s\n", $$1, $$2 }' $(MAKEFILE_LIST)

demo: java $(VENV)/.installed-demo $(VENV)/.jars ## Run the worked example: flight delays, killed and resumed
	@$(PYTHON) -m examples.flights

test: java $(VENV)/.installed-dev $(VENV)/.jars ## Run all tests: the fast ones first, then those on real Spark
	@echo "Fast tests"
	@$(PYTHON) -m pytest tests --numprocesses auto
	@echo "Tests on real Spark"
	@$(PYTHON) -m pytest integration_tests --numprocesses 2 --dist loadgroup

fast: $(VENV)/.installed-dev ## Run the tests that start no Java
	@$(PYTHON) -m pytest tests --numprocesses auto

lint: $(VENV)/.installed-dev ## Check style (ruff) and types (mypy)
	@$(PYTHON) -m ruff check --quiet --output-format concise
	@$(PYTHON) -m ruff format --check --quiet
	@$(PYTHON) -m mypy $(CODE)

bench: java $(VENV)/.installed-dev $(VENV)/.jars ## Run the benchmarks side by side, write benchmarks/results.json
	@$(PYTHON) -m benchmarks

drill: java $(VENV)/.installed-dev $(VENV)/.jars ## Break jobs in every way there is and judge their tables (an hour or so)
	@mkdir -p out
	@$(PYTHON) -m recovery.cli.main drill --html out/drills.html

images: java $(VENV)/.installed-dev $(VENV)/.jars ## Build the images of the stack (docs/stack.md); wants root and Docker
	@PYTHON=$(PYTHON) integration_tests/images/build

clean: ## Remove .venv and everything made by tools and examples (the shared cache stays)
	@rm -rf $(VENV) .hypothesis .mypy_cache .pytest_cache .ruff_cache build dist out spark-warehouse artifacts
	@find . -name __pycache__ -type d -prune -exec rm -rf {} +

java:
	@tools/check-java

$(PYTHON):
	@python=$$(tools/find-python) && echo "Making $(VENV) with $$python" && "$$python" -m venv --clear $(VENV)

$(VENV)/.installed-%: pyproject.toml | $(PYTHON)
	@echo "Installing packages into $(VENV) (some minutes the first time)"
	@$(PIP) install --editable '.[$*]'
	@touch $@

$(VENV)/.jars:
	@echo "Fetching the Java libraries of Delta and S3"
	@$(PYTHON) -m framework.engine.session.session
	@touch $@
