# Dispatch only: every recipe names the script or tool that does the work.

SHELL := /bin/bash
SYSTEM ?= local

.PHONY: setup cluster nightly demo quick test test-all weekly mutants bench detector-bench docs wheel lint clean

setup:
	scripts/setup.sh

# A real Slurm for tests/filesystems; without its packages these skip.
cluster: setup
	tests/filesystems/packages.sh

nightly: setup
	source env.sh && iowatch run --system $(SYSTEM)

# A fault that the white paper found, made on this machine and named.
demo: setup
	.venv/bin/python scripts/demo/demo_nights.py

# The slowest tests are printed, and build/junit.xml has all. ONLY='-k stripe', or a file, is all that
# then runs.
test: PYTEST = pytest -m "not slow"
test-all: PYTEST = pytest
test test-all: setup cluster
	$(if $(ONLY),,source env.sh && ctest --test-dir build/benchio -j 2 --output-on-failure)
	source env.sh && $(PYTEST) -n 2 --durations=25 --junitxml=build/junit.xml $(ONLY)

# In a minute: units, and the benches at their smallest.
quick: setup
	source env.sh && ctest --test-dir build/benchio -j 2 --output-on-failure
	source env.sh && pytest -m "not slow and not long" -n 2 --durations=5 tests/iowatch tests/test_*.py

# All tests, with IOR, Darshan, Spack and HDF5 with subfiling where they are, and coverage.
weekly: setup cluster
	scripts/weekly.sh

# NAMES='witness' tries only the mutants with that in their names.
mutants: setup
	.venv/bin/python tests/mutants/run.py $(NAMES)

bench: setup
	.venv/bin/python bench/speed.py
	.venv/bin/python bench/scale.py
	.venv/bin/python bench/database.py
	.venv/bin/python bench/acceptance.py

# YEAR=FILE replays a real year of nights too; docs/explanation/evidence.md says where there is one.
detector-bench: setup
	.venv/bin/python bench/detector.py --write $(if $(YEAR),--year $(YEAR))
	.venv/bin/python bench/compare.py --write $(if $(YEAR),--year $(YEAR))
	.venv/bin/python bench/detector_nodes.py --write
	.venv/bin/python bench/hour_trials.py

# HTML and man pages, for `iowatch docs` and the wheel. A warning is an error, as a link to nothing is;
# links to other sites need a network: .venv/bin/sphinx-build -M linkcheck docs build/docs
docs: setup
	.venv/bin/sphinx-build -qW -b html -d build/docs docs src/iowatch/docs/html
	.venv/bin/sphinx-build -qW -b man -d build/docs docs src/iowatch/docs/man

# In build/dist, both with the documentation.
wheel: docs
	.venv/bin/python -m build --quiet --outdir build/dist

lint: setup
	.venv/bin/ruff check
	.venv/bin/ruff check --preview --select PLW1514 src reframe_checks # no encoding of a locale
	.venv/bin/ruff format --check
	.venv/bin/mypy
	.venv/bin/lint-imports --no-cache
	.venv/bin/fortitude check src/benchio
	.venv/bin/shellcheck -x scripts/*.sh reframe_checks/job/*.sh src/iowatch/measure/context/*.sh tests/filesystems/packages.sh .ci/run env.sh

clean:
	rm -rf build .venv
