# shellcheck shell=bash
# Source this in bash, from any directory: `reframe`, `iowatch` and `benchio` are then on PATH, and
# find this checkout's checks, sites and Python package. What they need for that,
# src/iowatch/base/places.py says, as it does for `eval "$(iowatch env)"` where iowatch is installed. If
# that fails, one line says why.

eval "$(
    root=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd -P)
    python=$root/.venv/bin/python
    refuse() {
        echo "env.sh: $1, and then source env.sh again" >&2
        echo return 1 # of this file
        exit
    }
    if [[ ! -x $root/.venv/bin/reframe ]]; then
        command -v reframe >/dev/null ||
            refuse "$root is not set up, and no reframe is on PATH: run \`make setup\` there, or load a module of ReFrame"
        python=python3
        python3 -c 'import sys; sys.exit(sys.version_info < (3, 11))' 2>/dev/null ||
            refuse "the ReFrame on PATH needs a python3 of version 3.11 or later there: load its module"
        # A centre's own ReFrame has no iowatch.
        [[ :${PYTHONPATH-}: == *":$root/src:"* ]] || PYTHONPATH=$root/src${PYTHONPATH:+:$PYTHONPATH}
        export PYTHONPATH
        echo "export PYTHONPATH=${PYTHONPATH@Q}"
    fi
    # -P: no file of the present folder takes the place of a module.
    "$python" -Pm iowatch.base.places || echo return 1
)"
