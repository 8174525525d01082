# shellcheck shell=bash
# Source this in bash, from any directory: `reframe` and `iowatch` then find this checkout's checks,
# sites and Python package. Where iowatch is installed, `eval "$(iowatch env)"` does the same.

_iowatch_root=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd -P)

if [[ -x $_iowatch_root/.venv/bin/reframe ]]; then
    [[ :$PATH: == *":$_iowatch_root/.venv/bin:"* ]] || export PATH=$_iowatch_root/.venv/bin:$PATH
else
    # A centre's own ReFrame, from a module, has no iowatch.
    [[ :${PYTHONPATH-}: == *":$_iowatch_root/src:"* ]] ||
        export PYTHONPATH=$_iowatch_root/src${PYTHONPATH:+:$PYTHONPATH}
    command -v reframe >/dev/null ||
        echo "env.sh: no .venv here and no reframe on PATH: run \`make setup\` or load a module" >&2
fi

# Ours of ReFrame's configuration, each once; a file of the site's own folder takes the place of the
# one of the same name here. A centre's own stay, before ours. src/iowatch/places.py has the same
# rules, and why.
_iowatch_site=${IOWATCH_SITE_DIR:-$_iowatch_root}
_iowatch_ours=
for _iowatch_file in "$_iowatch_root"/site_configs/{settings,*}.py "$_iowatch_site"/site_configs/*.py; do
    _iowatch_own=$_iowatch_site/site_configs/${_iowatch_file##*/}
    [[ ! -e $_iowatch_own ]] || _iowatch_file=$_iowatch_own
    [[ ! -e $_iowatch_file || $_iowatch_ours: == *":$_iowatch_file:"* ]] ||
        _iowatch_ours+=:$_iowatch_file
done
_iowatch_others=
[[ ${RFM_CONFIG_FILES-} != :* ]] || _iowatch_others=: # which has a meaning for ReFrame
IFS=: read -ra _iowatch_given <<<"${RFM_CONFIG_FILES-}"
for _iowatch_file in "${_iowatch_given[@]}"; do
    case $_iowatch_file in
    "" | "$_iowatch_root"/site_configs/*.py | "$_iowatch_site"/site_configs/*.py) ;;
    *) _iowatch_others+=$_iowatch_file: ;;
    esac
done
export RFM_CONFIG_FILES=$_iowatch_others${_iowatch_ours#:}
unset "${!_iowatch_@}"
