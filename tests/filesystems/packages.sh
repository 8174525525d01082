#!/usr/bin/env bash
# Installs what tests/filesystems, tests/pages and tests/monitoring start, the second MPI and ADIOS2 of tests/benchio and the
# applications of tests/checks; run again, it does only what is missing. Where that cannot be, it says why and ends well: the tests
# then skip.
set -euo pipefail

packages=(
    munge slurmctld slurmd slurm-client slurmdbd slurm-wlm-mysql-plugin
    gridengine-master gridengine-exec gridengine-client
    mariadb-server-core mariadb-client-core # without init scripts, unlike mariadb-server
    glusterfs-server glusterfs-client
    ceph-mon ceph-osd ceph-mds ceph-mgr ceph-fuse ceph-common
    chromium # tests/pages opens the pages
    prometheus prometheus-node-exporter # tests/monitoring reads an export with them
    gromacs gromacs-data cp2k cp2k-data meep-openmpi # applications whose output is measured
    mmdebstrap # tests/releases makes roots of other releases
    iproute2 # of clusters in namespaces
    openssh-client # the evidence of an acceptance test is signed
    mpich libmpich-dev libhdf5-mpich-dev # beside Open MPI, which stays the machine's mpirun
    libnetcdf-dev # the serial one, which does not fit
    libadios2-mpi-fortran-dev # a backend more, which the next set-up builds; not in Debian 12
    lmod # a login node with modules
    flang-19 # 88 MiB: another compiler than gfortran reads what needs no MPI
)

skip() {
    echo "set-up: cluster packages: not installed, the tests that need them will skip: $1"
    exit 0
}

command -v dpkg-query >/dev/null || skip "this is no Debian"
installed=$(dpkg-query -W -f '${db:Status-Status} ${Package}\n' "${packages[@]}" 2>/dev/null || true)
offered=$(apt-cache pkgnames)
missing=() absent=()
for package in "${packages[@]}"; do
    grep -qx "installed $package" <<<"$installed" && continue
    # A machine that has no lists yet may have it.
    if compgen -G '/var/lib/apt/lists/*_Packages*' >/dev/null && ! grep -qx "$package" <<<"$offered"; then
        absent+=("$package")
    else
        missing+=("$package")
    fi
done
[[ ${#absent[@]} == 0 ]] ||
    echo "set-up: cluster packages: this release has no ${absent[*]}, the tests that need them will skip"
if [[ ${#missing[@]} == 0 ]]; then
    echo "set-up: cluster packages: up to date"
    exit
fi

if [[ $(id -u) != 0 ]]; then
    sudo -n true 2>/dev/null || skip "no root or sudo to install ${missing[*]}"
    exec sudo -n "${BASH_SOURCE[0]}"
fi

# Debian starts a daemon when its package is installed, unless this says no. The tests start their
# own.
policy=/usr/sbin/policy-rc.d
if [[ ! -e $policy ]]; then
    trap 'rm -f "$policy"' EXIT
    printf '#!/bin/sh\nexit 101\n' >"$policy"
    chmod 755 "$policy"
fi

start=$SECONDS log=$(mktemp)
apt() { DEBIAN_FRONTEND=noninteractive apt-get -o DPkg::Lock::Timeout=300 "$@" </dev/null; }
if ! { apt install -y --no-install-recommends "${missing[@]}" ||
    { apt update && apt install -y --no-install-recommends "${missing[@]}"; }; } >"$log" 2>&1; then
    tail -n 20 "$log" >&2
    skip "apt-get failed; the whole log is $log"
fi
rm "$log"
echo "set-up: cluster packages: done in $((SECONDS - start)) s"
