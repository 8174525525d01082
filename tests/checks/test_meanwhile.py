"""What a job notes of others while it measures: whoever is asked, and whatever becomes of that, it
changes no verdict."""

import os
import signal
import sys
from pathlib import Path

ROOT = Path(__file__).parents[2]

# Stands in for Lustre's lctl, with the form of its manual: no recording has these parameters. Of
# two OSTs one loses its connection while benchio runs.
LCTL = """\
#!/bin/bash
[ "$*" = "get_param *.*-ff1516d1620bb800.import *.*-ff1516d1620bb800.stats" ] || exit 2
late=0 state=FULL waits="1000 samples [usec] 50 9000 2000000 5000000000"
if [ -e circumstances.before.lustre ]; then
    late=3 state=DISCONN waits="1100 samples [usec] 50 900000 6000000 9000000000"
fi
case $LCTL in
hangs)
    trap ': >"$0.ended"; exit' TERM
    sleep 1000 & wait ;;
fails) echo "error: get_param: param_path: Permission denied" >&2; exit 13 ;;
garbage) head -c 100000 /dev/urandom; printf "\nosc.x-OST0000-y.import=\n timeouts: many\n" ;;
says)
    for target in osc.lus-OST000a-osc osc.lus-OST0000-osc mdc.lus-MDT0000-mdc; do
        echo "$target-ff1516d1620bb800.import="
        echo "import:"
        echo "    name: $target"
        case $target in *000a*) echo "    state: $state" ;; *) echo "    state: IDLE" ;; esac
        echo "    rpcs:"
        echo "       inflight: 0"
        case $target in *000a*) ;; *) late=7 ;; esac
        echo "       timeouts: $late"
        echo "    service_estimates:"
        echo "       services: 40 sec"
        echo "$target-ff1516d1620bb800.stats="
        case $target in *000a*) echo "req_waittime              $waits" ;; esac
    done ;;
esac
"""

# Hangs like a process inside the kernel: no signal reaches it. Once is enough.
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
        "LUSTRE_SAYS": "lfs-getname",
        "LUSTRE_STATE": str(site.folder / "lustre"),
    }
    ways = ("says", "hangs", "fails", "garbage")
    site.faults = dict.fromkeys([*ways, "stuck", "nobody"], "none")
    site.environs = {way: {"env_vars": [["LCTL", way]]} for way in ways}
    plain = {"SharedFileWrite": {**site.write}}
    site.write.update(stripe_count=[4], stripe_size=[1])
    lustre = {"type": "lustre", "osts": [0, 1, 2, 3]}
    site.partitions = {
        "lustre": {"extras": lustre, "environs": [*ways]},
        "ceph": {"extras": {"type": "ceph"}, "environs": ["stuck"], "sweep": plain},
        "memory": {"environs": ["nobody"], "sweep": plain},
    }
    try:
        done = site.reframe("-r", "-n", "SharedFileWrite")
    finally:
        os.kill(int((site.folder / "ceph.pid").read_text()), signal.SIGKILL)
    assert done.returncode == 0, done.stdout
    tests = {test["environ"]: test for test in site.report()}
    said = {test["sentence"].removeprefix(test["case_id"]) for test in tests.values()}
    assert len(said) == 1
    assert {test["verdict"] for test in tests.values()} == {"ok"}
    found = {name: test["circumstances"] for name, test in tests.items()}
    assert found["says"] == {
        "lustre_away": 1,
        "lustre_away_of": "OST000a",
        "lustre_timeouts": 3,
        "lustre_timeouts_of": "OST000a",
        "lustre_service_s": 40,
        "lustre_service_s_of": "MDT0000",
        "lustre_wait_ms": 40,
        "lustre_wait_ms_of": "the longest for OST000a",
    }
    silent = "Lustre's client (lctl get_param)"
    assert found["hangs"] == {"unknown": f"{silent} failed, or gave no answer in time"}
    assert found["garbage"] == {"unknown": f"{silent} gave no answer that can be read"}
    assert found["fails"] == {}, "it is root's alone"
    silent = [
        f"Ceph (ceph {word}) failed, or gave no answer in time" for word in ("status", "osd perf")
    ]
    assert found["stuck"] == {"unknown": "; ".join(silent)}
    assert found["nobody"] == {}
    assert (site.folder / "lctl.ended").exists()
    scripts = {name: Path(test["kept"], "rfm_job.sh").read_text() for name, test in tests.items()}
    assert "note" in scripts["says"]
    assert "note" not in scripts["nobody"]
