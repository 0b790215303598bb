# Everything runs from .venv in this folder. The Java libraries of Delta, S3 and Kafka are kept in ~/.cache/panekeeper
# (PANEKEEPER_CACHE names another folder), so that clones share them and only the first start needs the network.

VENV := .venv
PYTHON := $(VENV)/bin/python
PIP := $(PYTHON) -m pip --disable-pip-version-check --quiet
PIP_VERSION := 'pip>=25.1,<27' # the first that knows dependency groups
LOCK := requirements.lock
SPARK := $(shell sed -n 's/^pyspark==//p' $(LOCK))
DOCS_VERSION := $(shell sed -n 's/^__version__ = "\([0-9]*\.[0-9]*\).*/\1/p' panekeeper/__init__.py)
ON_SPARK := $(PYTHON) -m pytest integration_tests --numprocesses 2 --dist loadgroup --durations 10
CODE := $(wildcard panekeeper examples benchmarks tests integration_tests conftest.py)

.NOTPARALLEL:
.PHONY: help demo test test-rest test-4.1 on-older-spark test-release test-all fast explore lint bench soak drill images stack docs docs-version lock clean java

help: ## Show this help
	@echo "Panekeeper: windows for PySpark streams. Needs Python >= 3.11 and Java 17 or 21."
	@echo
	@awk -F ':.*## ' '/^[a-z0-9.-]+:.*## / { printf "  make %-12s %s\n", $$1, $$2 }' $(MAKEFILE_LIST)

demo: java $(VENV)/.installed-demo $(VENV)/.jars ## Run the worked example: flight delays, killed and resumed
	@$(PYTHON) -m examples.flights

test: java $(VENV)/.installed-dev $(VENV)/spark-classes.jsa ## Run the fast tests, then some of each kind on real Spark (a quarter of an hour)
	@echo "Fast tests"
	@$(PYTHON) -m pytest tests --numprocesses auto
	@echo "Tests on real Spark"
	@$(ON_SPARK) -m "not extended and not release"

test-rest: java $(VENV)/.installed-dev $(VENV)/spark-classes.jsa ## Run more on real Spark (a quarter of an hour; needs Docker and `make images`)
	@echo "The other tests on real Spark"
	@$(ON_SPARK) -m "extended"

test-4.1: java ## Run one of each kind on Spark 4.1, from .venv-4.1 (six minutes)
	@$(MAKE) --no-print-directory on-older-spark VENV=.venv-4.1 SPARK=4.1.4

on-older-spark: $(VENV)/.installed-spark $(VENV)/.jars
	@echo "Tests on Spark $(SPARK)"
	@$(ON_SPARK) -m "spark_4_1"

test-release: java $(VENV)/.installed-dev $(VENV)/spark-classes.jsa ## Run what only a release waits for: further combinations (more than an hour; needs Docker and `make images`)
	@echo "The tests on real Spark before a release"
	@$(ON_SPARK) -m "release"

test-all: test test-rest test-4.1 test-release ## Run all tests

fast: $(VENV)/.installed-dev ## Run the tests that start no Java
	@$(PYTHON) -m pytest tests --numprocesses auto

explore: $(VENV)/.installed-dev ## Play drawn histories through drawn declarations, in all cores, and see whether the laws hold: MINUTES=10
	@$(PYTHON) -m tests.laws.explore --minutes $(or $(MINUTES),10)

lint: $(VENV)/.installed-dev ## Check style (ruff) and types (mypy)
	@$(PYTHON) -m ruff check --quiet --output-format concise
	@$(PYTHON) -m ruff format --check --quiet
	@$(PYTHON) -m mypy $(CODE)

bench: java $(VENV)/.installed-dev $(VENV)/.jars ## Run the benchmarks side by side, write benchmarks/results.json
	@$(PYTHON) -m benchmarks

soak: java $(VENV)/.installed-dev $(VENV)/.jars ## Load a job from Kafka, kill it at random, account for every row (20 minutes)
	@$(PYTHON) -m benchmarks.soak --publish

drill: java $(VENV)/.installed-dev $(VENV)/.jars ## Break jobs in every known way and compare their tables (an hour)
	@$(PYTHON) -m integration_tests.drills

images: java $(VENV)/.installed-dev $(VENV)/.jars ## Build the images of the stack (docs/stack.md); needs root and Docker
	@PYTHON=$(PYTHON) integration_tests/images/build

stack: images ## Run the flights from Kafka on a cluster of containers, and break it meanwhile (docs/stack.md)
	@$(PYTHON) -m examples.stack

docs: $(VENV)/.installed-docs ## Build the documentation as a site in out/site; a link that leads nowhere is an error
	@NO_MKDOCS_2_WARNING=1 $(PYTHON) -m mkdocs build --quiet

docs-version: $(VENV)/.installed-docs ## Put the documentation, as that of this version, beside those of others: on the branch gh-pages
	@NO_MKDOCS_2_WARNING=1 PATH="$(abspath $(VENV)/bin):$$PATH" mike deploy --update-aliases $(DOCS_VERSION) latest
	@$(VENV)/bin/mike set-default latest

lock: $(PYTHON) ## Write requirements.lock anew: the newest versions that fit pyproject.toml
	@$(PIP) install --upgrade $(PIP_VERSION)
	@$(PIP) install --group lock
	@UV_CUSTOM_COMPILE_COMMAND="make lock" $(PYTHON) -m uv pip compile --quiet --upgrade --universal \
		--python-version 3.11 --all-extras --group dev --group docs --output-file $(LOCK) pyproject.toml

clean: ## Remove .venv and everything made by tools and examples (the shared cache stays)
	@rm -rf $(VENV) .venv-4.1 .hypothesis .mypy_cache .pytest_cache .ruff_cache build dist out spark-warehouse artifacts
	@find . -name __pycache__ -type d -prune -exec rm -rf {} +

java:
	@tools/check-java

$(PYTHON):
	@python=$$(tools/find-python) && echo "Making $(VENV) with $$python" && "$$python" -m venv --clear $(VENV)

# The versions are those of the lock, but for an older Spark: what is tested here is what was tested everywhere.
$(VENV)/.installed-demo: INSTALL := --editable '.[demo]'
$(VENV)/.installed-dev: INSTALL := --editable '.[demo,kafka,s3,prometheus,testing]' --group dev
$(VENV)/.installed-docs: INSTALL := --group docs
$(VENV)/.installed-spark: INSTALL := --editable '.[demo,kafka,s3,prometheus,testing]' --group test

$(VENV)/.installed-%: pyproject.toml $(LOCK) | $(PYTHON)
	@echo "Installing packages into $(VENV) (some minutes the first time)"
	@$(PIP) install --upgrade $(PIP_VERSION)
	@sed 's/^pyspark==.*/pyspark==$(SPARK)/' $(LOCK) >$(VENV)/versions.txt
	@$(PIP) install --constraint $(VENV)/versions.txt $(INSTALL)
	@touch $@

$(VENV)/.jars:
	@echo "Fetching the Java libraries of Delta, S3 and Kafka"
	@$(PYTHON) -m panekeeper.framework.engine.session.session
	@touch $@

$(VENV)/spark-classes.jsa: $(VENV)/.jars
	@echo "Writing an archive of Spark's classes, with which Java starts faster (half a minute, once)"
	@$(PYTHON) -m integration_tests.class_archive $@ >$(VENV)/spark-classes.log 2>&1 || { tail -n 20 $(VENV)/spark-classes.log; exit 1; }
