# shellcheck shell=bash
ask_osds() {
    command -v ceph >/dev/null || exit 0
    ceph --connect-timeout 3 osd perf --format json
}
