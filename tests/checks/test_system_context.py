"""What a job notes of others while it measures: whoever is asked, and whatever becomes of that, it
changes no verdict."""

import os
import signal
import sys
from pathlib import Path

from cases import verdict_of

ROOT = Path(__file__).parents[2]

# Stands in for Lustre's lctl, and says what a real one has said (tests/data/lustre/context): LCTL
# names the recording, of which one that was made afterwards counts once benchio has run. Like the
# real one it refuses a pattern that nothing matches. To hang once is enough.
LCTL = """\
#!/bin/bash
[[ $1 = get_param && $# -gt 1 ]] || { echo "lctl: beyond this stand-in: $*" >&2; exit 2; }
shift
case $LCTL in
hangs)
    mkdir "$0.once" || exit 1
    trap ': >"$0.ended"; exit' TERM
    sleep 1000 & wait ;;
garbage) head -c 100000 /dev/urandom; printf "\nosc.x-OST0000-y.import=\n timeouts: many\n" ;;
esac
when=before code=0
[ ! -e context.before.lustre ] || when=after
for pattern; do
    shown=none
    while IFS= read -r line; do
        if [[ $line = *.*.*=* ]]; then
            is_wanted=no
            # shellcheck disable=SC2053
            [[ ${line%%=*} != $pattern ]] || is_wanted=yes shown=some
        fi
        [ $is_wanted = no ] || echo "$line"
    done < <(cat "$RECORDED/$LCTL.$when")
    if [ $shown = none ]; then
        echo "error: get_param: param_path '${pattern//.//}': No such file or directory" >&2
        code=2
    fi
done
exit $code
"""

# Hangs, once too, like a process inside the kernel: no signal reaches it.
CEPH = """\
#!/bin/bash
mkdir "$0.once" || exit 1
setsid sleep 1000 &
echo $! >"$0.pid"
wait
"""


def test_whoever_is_asked_no_verdict_changes(site):
    for name, text in {"lctl": LCTL, "ceph": CEPH}.items():
        (site.folder / name).write_text(text)
        (site.folder / name).chmod(0o755)
    places = [site.folder, ROOT / "tests/faults", Path(sys.executable).parent, os.environ["PATH"]]
    site.environment = {
        "PATH": ":".join(map(str, places)),
        "LUSTRE_STATE": str(site.folder / "lustre"),
        "RECORDED": str(ROOT / "tests/data/lustre/context"),
    }
    ways = ("full", "ost3-unmounted", "ordinary-user", "hangs", "fails", "garbage")
    site.faults = dict.fromkeys([*ways, "stuck", "nobody"], "none")
    site.partition["max_jobs"] = len(site.faults)
    site.environs = {way: {"env_vars": [["LCTL", way]]} for way in ways}
    plain = {"SharedFileWrite": {**site.write}}
    site.write.update(stripe_count=[4], stripe_size=[1])
    lustre = {"type": "lustre", "osts": [0, 1, 2, 3]}
    site.partitions = {
        "lustre": {"extras": lustre, "environs": [*ways]},
        "ceph": {"extras": {"type": "ceph"}, "environs": ["stuck"], "suite": plain},
        "memory": {"environs": ["nobody"], "suite": plain},
    }
    try:
        done = site.reframe("-r", "-n", "SharedFileWrite")
    finally:
        os.kill(int((site.folder / "ceph.pid").read_text()), signal.SIGKILL)
    assert done.returncode == 0, done.stdout
    tests = {test["environ"]: test for test in site.report()}
    said = {test["sentence"] for test in tests.values()}
    assert len(said) == 1
    assert {verdict_of(test) for test in tests.values()} == {"ok"}
    found = {name: test["system_context"] for name, test in tests.items()}
    assert found["full"]["lustre_away"] == 0
    assert {"lustre_timeouts", "lustre_service_s", "lustre_wait_ms"} < found["full"].keys()
    away = {"lustre_away": 1, "lustre_away_of": "OST0003"}
    assert found["ost3-unmounted"].items() >= away.items()
    # To whom lctl shows no connection, lfs does.
    assert found["ordinary-user"]["lustre_away"] == 0
    assert "lustre_wait_ms" in found["ordinary-user"]
    assert found["fails"] == {"lustre_away": 0}
    silent = "Lustre's client (lctl get_param)"
    late = f"{silent} failed, or gave no answer in time"
    assert found["hangs"] == {"unknown": late, "lustre_away": 0}, "it answered afterwards"
    assert found["garbage"] == {"unknown": f"{silent} gave no answer that can be read"}
    silent = [
        f"Ceph (ceph {word}) failed, or gave no answer in time" for word in ("status", "osd perf")
    ]
    assert found["stuck"] == {"unknown": "; ".join(silent)}
    assert found["nobody"] == {}
    assert (site.folder / "lctl.ended").exists()
    scripts = {name: Path(test["kept"], "rfm_job.sh").read_text() for name, test in tests.items()}
    asks = "\nnote before"
    assert asks in scripts["full"]
    assert asks not in scripts["nobody"]
