# shellcheck shell=bash
# Source this in bash, from any directory: `reframe` and `iowatch` then find this checkout's checks,
# sites and Python package.

_iowatch_root=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)

if [[ -x $_iowatch_root/.venv/bin/reframe ]]; then
    [[ :$PATH: == *":$_iowatch_root/.venv/bin:"* ]] || export PATH=$_iowatch_root/.venv/bin:$PATH
else
    # A centre's own ReFrame, from a module, has no iowatch.
    [[ :${PYTHONPATH-}: == *":$_iowatch_root/src:"* ]] ||
        export PYTHONPATH=$_iowatch_root/src${PYTHONPATH:+:$PYTHONPATH}
    command -v reframe >/dev/null ||
        echo "env.sh: no .venv here and no reframe on PATH: run \`make setup\` or load a module" >&2
fi

RFM_CONFIG_FILES=$_iowatch_root/site_configs/settings.py
for _iowatch_file in "$_iowatch_root"/site_configs/*.py; do
    [[ $_iowatch_file == */settings.py ]] || RFM_CONFIG_FILES+=:$_iowatch_file
done
export RFM_CONFIG_FILES
unset _iowatch_root _iowatch_file
