# Dispatch only: every recipe names the script or tool that does the work.

SHELL := /bin/bash
SYSTEM ?= local

.PHONY: setup nightly test test-all bench lint clean

setup:
	scripts/setup.sh

nightly: setup
	source env.sh && iowatch nightly --system $(SYSTEM)

test: setup
	source env.sh && ctest --test-dir build/benchio --output-on-failure
	source env.sh && pytest -m "not slow"

test-all: setup
	source env.sh && ctest --test-dir build/benchio --output-on-failure
	source env.sh && pytest

bench: setup
	.venv/bin/python tests/bench/bench.py

lint: setup
	.venv/bin/ruff check
	.venv/bin/ruff format --check
	.venv/bin/mypy
	.venv/bin/fortitude check src/benchio
	.venv/bin/shellcheck scripts/*.sh .ci/run env.sh

clean:
	rm -rf build .venv
