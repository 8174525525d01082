#!/usr/bin/env bash
# All tests, with the programs that Debian does not have where they are on PATH or Spack has them
# (CONTRIBUTING.md says how), and their coverage. Ends with what could not run, and why.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."
# shellcheck source=env.sh
source env.sh
spack=$(command -v spack || true)
[[ -x ${SPACK_ROOT-}/bin/spack ]] && spack=$SPACK_ROOT/bin/spack
absent=()

# place SPEC: where Spack has installed it.
place() {
    [[ -n $spack ]] && "$spack" location -i "$1" 2>/dev/null
}

if ! command -v ior >/dev/null || ! command -v mdtest >/dev/null; then
    if prefix=$(place ior); then
        PATH=$prefix/bin:$PATH
    else
        absent+=("IOR and mdtest: neither on PATH nor in Spack")
    fi
fi
if [[ -z ${DARSHAN_LIBRARY-} ]]; then
    if prefix=$(place darshan-runtime); then
        export DARSHAN_LIBRARY=$prefix/lib/libdarshan.so
    else
        absent+=("Darshan: DARSHAN_LIBRARY is not set, and Spack has no darshan-runtime")
    fi
fi
[[ -n $spack ]] || absent+=("Spack: neither SPACK_ROOT nor PATH has one")

# subprocesses too: most of tests/checks starts iowatch as a process.
coverage=(--cov --cov-report=term:skip-covered --cov-report=html:build/coverage)
if ! .venv/bin/python -c "import pytest_cov" 2>/dev/null; then
    coverage=()
    absent+=("coverage: .venv/bin/pip install pytest-cov")
fi

status=0
ctest --test-dir build/benchio -j 2 --output-on-failure || status=$?
pytest -n 2 "${coverage[@]}" --junitxml=build/weekly.xml || status=$?

# A release that changes every week: on its own, for what it breaks stands in no commit of ours.
TEST_RELEASES=testing pytest tests/releases -k two_nights || status=$?

# Beside the build of `make setup`, for the one thing that needs another HDF5.
if prefix=$(place "hdf5@1.14:+subfiling+mpi+fortran"); then
    cmake -S src/benchio -B build/subfiling -DHDF5_ROOT="$prefix" -DBENCHIO_NETCDF=OFF >build/logs/subfiling.log
    cmake --build build/subfiling >>build/logs/subfiling.log
    TEST_BENCHIO=$(find "$PWD/build/subfiling" -name benchio -type f -perm -u+x | head -n 1) \
        pytest tests/benchio/test_subfiles.py || status=$?
else
    absent+=("HDF5 with subfiling: Spack has none")
fi

printf '\nNot here, so that tests were skipped:\n'
printf '  %s\n' "${absent[@]:-nothing}"
exit "$status"
