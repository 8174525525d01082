#!/usr/bin/env bash
# Makes .venv and build/bin/benchio from a clean clone. Run again, it redoes only what has changed.
# PYTHON names the interpreter for .venv; otherwise Debian's, or the first one that is new enough.
# CMAKE_ARGS has further options of cmake, such as -DBENCHIO_NETCDF=OFF.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."
PATH=${PATH//$PWD\/.venv\/bin:/} # never build .venv with itself

packages=(
    gfortran cmake ninja-build
    openmpi-bin libopenmpi-dev libhdf5-openmpi-dev
    libnetcdf-mpi-dev libpnetcdf-dev
    libpango-1.0-0 libpangoft2-1.0-0 libharfbuzz-subset0 # pages as PDF
    python3-venv
    strace # a test watches benchio's fsync calls
)

die() {
    printf 'set-up: %s\n' "$@" >&2
    exit 1
}

site_advice="Without Debian's packages, as on a site with modules or Spack:
  1. load MPI and parallel HDF5, both with their Fortran interfaces, and parallel NetCDF
     (module load ..., or: spack load openmpi hdf5 netcdf-c)
  2. FC=mpif90 cmake -S src/benchio -B build/benchio \\
       -DCMAKE_RUNTIME_OUTPUT_DIRECTORY=\$PWD/build/bin    (on a Cray: FC=ftn)
     cmake --build build/benchio"

# run NAME COMMAND: one line when it is done; when it fails, the end of what it said.
step=
run() {
    local start=$SECONDS
    step=$1 log=build/logs/$1.log
    ("$2") >"$log" 2>&1 </dev/null # not in a condition: that would switch off set -e inside
    echo "set-up: $1: done in $((SECONDS - start)) s"
    step=
}

# once NAME FOLDER KEY COMMAND: run COMMAND, which makes FOLDER, unless this very COMMAND has done so
# for this KEY. The stamp is in FOLDER and written last: it goes with what it stands for, and an
# interrupted run leaves none.
once() {
    local stamp=$2/.stamp key
    key="$3 $(declare -f "$4")"
    if [[ -f $stamp && $(<"$stamp") == "$key" ]]; then
        echo "set-up: $1: up to date"
    else
        rm -f "$stamp"
        run "$1" "$4"
        echo "$key" >"$stamp"
    fi
}

report_failure() {
    local status=$?
    [[ $status != 0 && -n $step ]] || return 0
    tail -n 20 "$log" >&2
    printf 'set-up: %s failed; the whole log is %s\n' "$step" "$PWD/$log" >&2
    [[ $step == configure ]] || return 0
    echo "set-up: MPI's compiler is $(type -P mpif90 || echo none): load another module, or pass" \
        "options of cmake on: CMAKE_ARGS='-DNAME=VALUE' make setup" >&2
    [[ -n $debian ]] || printf '%s\n' "$site_advice" >&2
}
trap report_failure EXIT

missing_packages() {
    local installed package
    # dpkg-query exits 1 if it knows nothing of one of them
    installed=$(dpkg-query -W -f '${db:Status-Status} ${Package}\n' "${packages[@]}" 2>&1 || true)
    for package in "${packages[@]}"; do
        grep -qx "installed $package" <<<"$installed" || echo "$package"
    done
}

install_packages() {
    local apt=(env DEBIAN_FRONTEND=noninteractive apt-get -o DPkg::Lock::Timeout=300)
    [[ $(id -u) == 0 ]] || apt=(sudo -n "${apt[@]}")
    "${apt[@]}" update || echo "The package lists are as old as they were."
    "${apt[@]}" install -y --no-install-recommends "${missing[@]}"
}

find_python() {
    local candidates=${PYTHON:-${debian:+/usr/bin/python3} python3 /usr/bin/python3} candidate
    local suits='import sys, venv, ensurepip; sys.exit(sys.version_info < (3, 11))'
    for candidate in $candidates; do
        "$candidate" -c "$suits" &>/dev/null && command -v "$candidate" && return
    done
    die "no Python 3.11 or later with venv among: $candidates"
}

python_environment() {
    "$python" -m venv --clear .venv
    # compat puts src on Python's path; otherwise any folder named iowatch, as in tests, hides ours.
    # Half of the time went into compiling modules of which few are ever imported.
    .venv/bin/python -m pip install --quiet --no-compile --disable-pip-version-check \
        -c tests/constraints.txt --config-settings editable_mode=compat -e '.[test,lint]'
}

# What environment modules change of what is found.
modules() {
    type -P mpifort mpif90 h5pfc nc-config pnetcdf-config || true
    env | grep -iE '^(FC|FFLAGS|CMAKE_PREFIX_PATH|\w*(HDF5|NetCDF)_(ROOT|DIR))=' | sort || true
}

configure() { cmake --fresh -S src/benchio -B build/benchio "${options[@]}"; }

# A source that this build leaves out may be newer. Where none is, a touch would have ninja link anew.
build() {
    cmake --build build/benchio
    local newer
    newer=$(find src/benchio/app src/benchio/lib -newer build/bin/benchio -print -quit)
    [[ -z $newer ]] || touch build/bin/benchio
}

mkdir -p build/logs 2>/dev/null && [[ -w build && -w build/logs ]] ||
    die "$PWD/build cannot be written: use what is set up there (source env.sh) or a clone of your own"
exec 9>>build/setup.lock
flock 9 # one set-up at a time in this clone

options=(-DCMAKE_BUILD_TYPE=Release "-DCMAKE_RUNTIME_OUTPUT_DIRECTORY=$PWD/build/bin")
debian=$(command -v dpkg-query || true)
if [[ -n $debian ]]; then
    mapfile -t missing < <(missing_packages)
    if [[ ${#missing[@]} -gt 0 ]]; then
        [[ $(id -u) == 0 ]] || sudo -n true 2>/dev/null ||
            die "these Debian packages are missing, and there is no root or sudo to install them:" \
                "  ${missing[*]}" "$site_advice"
        run packages install_packages
    else
        echo "set-up: packages: up to date"
    fi
    options+=(-G Ninja)
fi
read -ra more <<<"${CMAKE_ARGS:-}"
options+=("${more[@]}")

# pip mostly waits, so benchio is built beside it.
python=$(find_python)
(
    trap report_failure EXIT
    once python .venv "$PWD $("$python" -VV) $(sha256sum pyproject.toml tests/constraints.txt)" \
        python_environment
) &
python_is_ready=$!

# With what benchio takes if it is there.
versions=$([[ -z $debian ]] || dpkg-query -W "${packages[@]}" 'libadios2-*' 2>/dev/null || true)
once configure build/benchio "${options[*]} $versions $(modules)" configure
run build build
wait "$python_is_ready"
