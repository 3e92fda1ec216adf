# Everything happens in .venv, made here with python3's own venv; make and python3 are all it takes.
#
# What is installed comes from a lock (requirements/*.txt), wheels only, each checked by its hash. A stamp in .venv says
# for which lock and pyproject.toml that was done; while it holds, pip is not asked and no network is needed.

PYTHON ?= python3
BIN := .venv/bin
PIP_INSTALL := $(BIN)/python -m pip install --quiet --disable-pip-version-check --no-input --no-deps

define HELP
make demo    a real model on this machine calls tools (ARGS="--help" tells what else it can do)
make test    the whole suite (ARGS="-k flow" runs a part)
make check   lint, format and types
make interop the clients of others that some tests speak with: npm packages, and a word on Chromium
make bench   the hot paths, one JSON line per figure
make lock    pin requirements/*.txt anew (ARGS=--upgrade takes newer releases)
make clean   remove .venv and all that tools left behind
endef

.PHONY: help demo test check interop bench lock clean

help:
	$(info $(HELP))
	@:

demo: .venv/demo.stamp
	@$(BIN)/python -m recipes.streaming_tool_output $(ARGS)

test: .venv/dev.stamp
	@$(BIN)/python -m pytest $(ARGS)

check: .venv/dev.stamp
	@$(BIN)/python -m ruff check
	@$(BIN)/python -m ruff format --check
	@$(BIN)/python -m mypy --strict streamkit recipes tests bench
	@$(BIN)/python -m basedpyright

# Without a lock of npm's, which would name registries: the versions in package.json are exact.
interop:
	@command -v npm >/dev/null || { echo "streamkit: there is no npm here; install Node.js 20 or newer" >&2; exit 1; }
	@npm install --prefix tests/interop --no-package-lock --no-audit --no-fund --loglevel=error
	@command -v chromium >/dev/null || command -v chromium-browser >/dev/null || command -v google-chrome >/dev/null || \
		echo "streamkit: the tests in a browser need Chromium (on Debian and Ubuntu: apt install chromium)"

bench: .venv/dev.stamp
	@$(BIN)/python -m bench $(ARGS)

# The demo's lock is a part of the development lock, at the same versions: who has the larger has the smaller.
.venv/dev.stamp: requirements/dev.txt pyproject.toml | .venv/pip.stamp
	@$(call install,dev)
	@touch .venv/demo.stamp $@

.venv/demo.stamp: requirements/demo.txt pyproject.toml | .venv/pip.stamp
	@$(call install,demo)
	@touch $@

define install
echo "Installing requirements/$(1).txt into .venv (a few hundred MB, once) ..." >&2; \
if ! $(PIP_INSTALL) --require-hashes --only-binary :all: --requirement requirements/$(1).txt 2>.venv/pip.log || \
   ! $(PIP_INSTALL) --no-build-isolation --editable . 2>>.venv/pip.log; then \
	echo "streamkit: pip could not install requirements/$(1).txt; the first time it needs the network (.venv/pip.log says more)" >&2; \
	exit 1; \
fi
endef

# A Python that was upgraded or removed takes the .venv with it.
$(shell test -x $(BIN)/python || rm -f .venv/*.stamp)

# Runs again over a .venv that was left half made.
.venv/pip.stamp:
	@command -v $(PYTHON) >/dev/null || { \
		echo "streamkit: there is no $(PYTHON) here; install Python 3.11 or newer, or say PYTHON=/path/to/python" >&2; exit 1; }
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' || { \
		echo "streamkit: $$($(PYTHON) --version 2>&1) is too old; install Python 3.11 or newer, or say PYTHON=/path/to/python" >&2; exit 1; }
	@$(PYTHON) -c 'import venv, ensurepip' 2>/dev/null || { \
		echo "streamkit: $(PYTHON) has no venv module; install it (on Debian and Ubuntu: apt install python3-venv)" >&2; exit 1; }
	@$(PYTHON) -m venv .venv
	@touch $@

# uv reads one lock for all systems and Python versions; it is not needed for anything else, so it goes away again.
lock: .venv/pip.stamp
	@tool=$$(mktemp -d) && trap 'rm -rf "$$tool"' EXIT && $(PYTHON) -m venv "$$tool" && \
	"$$tool/bin/pip" install --quiet --disable-pip-version-check uv==0.13.9 && \
	$(call compile,dev) && \
	$(call compile,demo) --constraint requirements/dev.txt

compile = "$$tool/bin/uv" pip compile --quiet --universal --python-version 3.11 --generate-hashes \
	--no-emit-package streamkit-tools --annotation-style line --custom-compile-command "make lock" \
	--output-file requirements/$(1).txt requirements/$(1).in $(ARGS)

clean:
	rm -rf .venv dist .hypothesis .mypy_cache .pytest_cache .ruff_cache tests/interop/node_modules tests/screenshots
	find . -name __pycache__ -type d -prune -exec rm -rf {} +
