# shellcheck shell=bash
# Syncs files, as each task does: whichever has written, its node has no page left that is dirty.
# Prints the nanoseconds that it took.
began=$(date +%s%N)
sync "$@" && echo "synced $(($(date +%s%N) - began))"
