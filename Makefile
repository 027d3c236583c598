# make demo and make test are all you need; they set up what they use.

PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
CORE := $(VENV)/.core
STAMP := $(VENV)/.installed

# Tests start a thousand processes: each would compile every module anew.
unexport PYTHONDONTWRITEBYTECODE

# Says what is missing before anything fails half-way.
define need_python
@command -v $(PYTHON) > /dev/null || { \
	echo "Skitter needs Python 3.11 or newer, and there is no $(PYTHON) here." >&2; \
	echo "Install it, or name another: make PYTHON=/path/to/python3" >&2; exit 1; }
@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' || { \
	echo "Skitter needs Python 3.11 or newer; $(PYTHON) is $$($(PYTHON) -V 2>&1)." >&2; \
	echo "Name a newer one: make PYTHON=python3.12" >&2; exit 1; }
@$(PYTHON) -c 'import ensurepip, venv' 2> /dev/null || { \
	echo "$(PYTHON) cannot create virtual environments: its venv module is missing." >&2; \
	echo "On Debian and Ubuntu install it with: apt-get install python3-venv" >&2; exit 1; }
endef

.DEFAULT_GOAL := help
.PHONY: help install demo test quick check format docs pictures site bench size chaos versions package constraints clean

help: ## List the targets
	@awk -F ':.*## ' '/^[a-z]+:.*## / {printf "  make %-12s %s\n", $$1, $$2}' $(MAKEFILE_LIST)

install: $(STAMP) ## Set up .venv with the pinned dependencies
	@echo "Skitter is installed in $(VENV)."

demo: $(CORE) ## Show Skitter at work
	@$(BIN)/skitter demo $(ARGS)
	@echo "To see it live in a browser: $(BIN)/skitter demo --dashboard"

# More processes than cores: tests wait for the processes that they start.
test: $(STAMP) ## Run the tests
	@scripts/system-packages test
	@$(BIN)/python -m pytest -n 6 --dist loadfile --no-loadscope-reorder --durations 15 $(ARGS)

# What needs no process but one server.
QUICK := tests/unit tests/lua tests/settings tests/spider tests/frontier

quick: $(STAMP) ## Check style and types, and run the tests that need one server at most: a minute
	@$(BIN)/ruff check . && $(BIN)/ruff format --check . && $(BIN)/python -m mypy src
	@$(BIN)/python -m pytest -q -n 4 $(QUICK) $(ARGS)

check: $(STAMP) ## Check style, types and layers
	@$(BIN)/ruff check .
	@$(BIN)/ruff format --check .
	@$(BIN)/python -m mypy src benchmarks tests
	@$(BIN)/lint-imports --no-logo

format: $(STAMP) ## Repair what ruff can repair
	@$(BIN)/ruff check --fix .
	@$(BIN)/ruff format .

docs: $(STAMP) ## Write the reference pages that are made from the code
	@$(BIN)/python -m scripts.make_docs

pictures: $(STAMP) ## Take the pictures of the dashboard for the docs, of a crawl of some minutes
	@scripts/system-packages test
	@$(BIN)/python scripts/make_pictures.py

site: docs ## Build the docs site into build/site; warnings are errors
	@$(BIN)/python -m sphinx -W --keep-going -q docs build/site
	@echo "Open build/site/index.html"

bench: $(STAMP) ## Measure against goals and peers, for docs/benchmarks.md (then: make docs)
	@scripts/system-packages bench
	@met=0; for what in frontier crawl scrapy http million; do $(BIN)/python -m benchmarks $$what --keep || met=1; done; exit $$met

size: $(STAMP) ## Measure the source: lines by room, names, what a page crosses
	@$(BIN)/python scripts/size.py

versions: $(STAMP) ## Test with other releases of Celery and Scrapy: CELERY='5.7.0' SCRAPY='2.13.4' PYTHON=python3.13
	@$(BIN)/python scripts/versions.py celery $(or $(CELERY),5.7.0)
	@$(BIN)/python scripts/versions.py scrapy $(or $(SCRAPY),2.13.4 2.19.0)

chaos: $(STAMP) ## Run the slow proof: killed workers, killed servers, lost replies
	@scripts/system-packages chaos
	@$(BIN)/python -m pytest -m chaos -n 6 --dist load --maxschedchunk 1 $(ARGS)

package: $(STAMP) ## Build sdist and wheel, and try the wheel in an environment of its own
	@$(BIN)/python scripts/package.py

constraints: ## Renew constraints.txt and the lock files with the newest versions
	$(need_python)
	@set -e; fresh=$$(mktemp -d); trap 'rm -rf "$$fresh"' EXIT; \
	echo "Resolving the newest versions ..."; \
	$(PYTHON) -m venv "$$fresh/venv"; \
	"$$fresh/venv/bin/python" -m pip install -qq --disable-pip-version-check ".[dev]"; \
	echo "# Exact versions of all that .[dev] brings. Renew with: make constraints" > "$$fresh/pins"; \
	"$$fresh/venv/bin/python" -m pip freeze --disable-pip-version-check --exclude skitter \
		> "$$fresh/freeze"; \
	LC_ALL=C sort -f "$$fresh/freeze" >> "$$fresh/pins"; \
	cp "$$fresh/pins" constraints.txt; \
	"$$fresh/venv/bin/python" scripts/lock.py

clean: ## Remove .venv, caches and builds (crawl data in .skitter stays)
	@rm -rf $(VENV) dist build .mypy_cache .ruff_cache .pytest_cache .import_linter_cache .hypothesis
	@find src benchmarks tests scripts -name __pycache__ -type d -prune -exec rm -rf {} +

# What the demo needs comes in seconds; what tests and checks need besides takes a minute.
$(CORE): pyproject.toml constraints.txt
	$(need_python)
	@$(PYTHON) scripts/install.py core
	@touch $@

$(STAMP): pyproject.toml constraints.txt
	$(need_python)
	@$(PYTHON) scripts/install.py dev
	@touch $(CORE) $@
