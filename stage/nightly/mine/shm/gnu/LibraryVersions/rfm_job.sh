#!/bin/bash
exec 9<"/work/h7" && flock 9
export OMPI_MCA_rmaps_base_oversubscribe=1
export OMPI_ALLOW_RUN_AS_ROOT=1
export OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1
export OMPI_MCA_io=romio321
export DARSHAN_DISABLE=1
# iowatch: the environment ends here
export LC_ALL=C
cd "/work/h7/stage/nightly/mine/shm/gnu/LibraryVersions" || exit 1
rm -f exit_code
keep() { find . -maxdepth 1 -type f -exec cp -p -t "runs/2026-11-26T030414/mine:shm,gnu,LibraryVersions" {} +; }
trap keep EXIT
mpirun -np 1 /work/h7/build/bin/benchio --version
echo $? > exit_code
