"""Centres' own configurations, in the forms that public ones have, beside iowatch's."""

import json
import subprocess
import sys
from pathlib import Path

import pytest
import yaml

ROOT = Path(__file__).parents[2]

PARTITION = {
    "scheduler": "local", "launcher": "mpirun", "environs": ["gnu"], "max_jobs": 1,
}  # fmt: skip
PLAIN = {
    "systems": [
        {"name": "hydra", "hostnames": ["login"], "partitions": [{"name": "cpu", **PARTITION}]}
    ],
    "environments": [{"name": "gnu"}],
}
EXTRAS = {
    "filesystem": "scratch", "path": "/scratch/iowatch", "type": "lustre", "peak": 1e6,
    "osts": None, "cached_reads": True, "ranks_per_node": 2, "keep_days": 10,
    "suites": {
        "nightly": {
            "SharedFileWrite": {"backend": ["mpiio"], "local_size": [16], "nodes": [1]}
        },
        "acceptance": {},
    },
}  # fmt: skip

LAUNCHER = """\
from reframe.core.backends import register_launcher
from reframe.core.launchers import JobLauncher


@register_launcher("ourrun")
class OurRun(JobLauncher):
    def command(self, job):
        return ["ourrun"]


"""
# As the site's file says what iowatch has to know.
EXTENDED = """\
from iowatch.base.places import extended

site_configuration = extended({}, "hydra", *{!r}, **{!r})
"""
#: What a new process reads of it, as ReFrame itself does.
READ = """\
import json
from iowatch.site import site

config = site.configuration("hydra")
known = site.read_site("hydra")
told = {"doubts": known.doubts, "cases": len(known.cases("nightly")), "logs": known.logs}
told["modes"] = [mode["name"] for mode in config.get("modes")]
told["trap"] = config.get("general/0/trap_job_errors")
told["perflogs"] = [handler["type"] for handler in config.get("logging/0/handlers_perflog")]
told["partition"] = config.get("systems/0/partitions")[0]
for place in ("cpu", "gpu"):
    config.select_subconfig(f"hydra:{place}", ignore_resolve_errors=True)
    told[place] = config.get("environments")[-1].get("env_vars", [])
    if len(config["systems"][0]["partitions"]) == len(known.filesystems) == 1:
        break
print(json.dumps(told))
"""


def python(config, before=""):
    return f"{before}site_configuration = {config!r}\n"


@pytest.fixture
def read(tmp_path, monkeypatch):
    """read(files, ...): what iowatch knows of a centre's files, the first of which has the system,
    and what was said where it cannot be used."""
    folder = tmp_path / "site" / "site_configs"
    folder.mkdir(parents=True)
    monkeypatch.setenv("IOWATCH_SITE_DIR", str(folder.parent))
    monkeypatch.delenv("RFM_PREFIX", raising=False)

    def call(files, places=("cpu",), both=True, **changes):
        for name, text in files.items():
            (tmp_path / name).parent.mkdir(exist_ok=True)
            (tmp_path / name).write_text(text)
        centre = str(tmp_path / next(iter(files)))
        extras = [dict.fromkeys(places, EXTRAS), changes.pop("environs", {})]
        ours = EXTENDED.format(repr(centre), extras, changes)
        (folder / "hydra.py").write_text(ours)
        # As in howto/reframe.md: the centre's file is ReFrame's, too.
        monkeypatch.setenv("RFM_CONFIG_FILES", centre if both else "")
        script = "import os; from iowatch.base.places import config_files\n"
        script += "os.environ['RFM_CONFIG_FILES'] = config_files()\n"
        words = [sys.executable, "-c", script + READ]
        done = subprocess.run(words, capture_output=True, text=True, cwd=tmp_path)
        if done.returncode:
            return done.stderr.strip().splitlines()[-1]
        return json.loads(done.stdout)

    return call


#: The file that has the system, first.
FORMS = {
    "Python": {"centre.py": python(PLAIN)},
    "YAML": {"centre.yaml": yaml.safe_dump(PLAIN)},
    "YAML, short": {"centre.yml": yaml.safe_dump(PLAIN)},
    "JSON": {"centre.json": json.dumps(PLAIN)},
    "of a package": {
        "conf/centre.py": python(PLAIN, "from .common import NAMES\n"),
        "conf/__init__.py": "", "conf/common.py": "NAMES = ()\n",
    },
    "of a file beside it": {
        "centre.py": python(
            PLAIN,
            "import os, reframe.utility as util\n"
            "util.import_module_from_file(os.path.join(os.path.dirname(__file__), 'more.py'))\n",
        ),
        "more.py": "",
    },
    "with a launcher": {"centre.py": python(PLAIN, LAUNCHER)},
}  # fmt: skip


@pytest.mark.parametrize("both", [True, False])
@pytest.mark.parametrize("form", FORMS)
def test_file_of_any_form_is_read_once(read, form, both):
    assert read(FORMS[form], both=both)["cases"] == 2, "and that of the libraries"


@pytest.mark.parametrize("both", [True, False])
def test_environments_keep_their_scope(read, both):
    """Those of one name in several partitions, with and without what iowatch adds to them."""
    partitions = [{"name": name, **PARTITION} for name in ("cpu", "gpu")]
    scoped = [
        {"name": "gnu", "target_systems": [f"hydra:{name}"], "env_vars": [["FOR", name]]}
        for name in ("cpu", "gpu")
    ]
    anywhere = {"name": "gnu", "env_vars": [["FOR", "any"]]}
    of_another = {"name": "gnu", "target_systems": ["other"], "env_vars": [["FOR", "other"]]}
    system = [{**PLAIN["systems"][0], "partitions": partitions}]
    for environments in (scoped, [*scoped, anywhere, of_another]):
        centre = {"centre.py": python({"systems": system, "environments": environments})}
        for environs in ({}, {"gnu": {"benchio": "/opt/benchio"}}):
            known = read(centre, ("cpu", "gpu"), both, environs=environs)
            assert (known["cpu"], known["gpu"]) == ([["FOR", "cpu"]], [["FOR", "gpu"]])


def test_undefined_environment_is_named(read):
    config = {**PLAIN, "environments": [{"name": "gnu", "target_systems": ["hydra:gpu"]}]}
    line = read({"centre.py": python(config)})
    assert line.endswith(
        "the environment gnu is not defined for hydra:cpu: define it, or mend its target_systems"
    )


@pytest.mark.parametrize("both", [True, False])
def test_all_else_of_the_centre_stays_in_force(read, both, tmp_path):
    log = {"type": "file", "name": str(tmp_path / "centre.log"), "level": "info"}
    config = {
        **PLAIN,
        "general": [{"trap_job_errors": True, "report_file": "elsewhere.json"}],
        "modes": [{"name": "centre", "options": ["--tag=x"]}],
        "logging": [
            {"handlers": [log], "handlers_perflog": [{"type": "httpjson", "url": "http://[::1]"}]}
        ],
    }
    known = read({"centre.py": python(config)}, both=both)
    assert known["trap"] is True
    assert {"centre", "acceptance"} <= {*known["modes"]}
    assert len(known["logs"]) == 2, "ours, and the centre's"
    assert known["perflogs"] == ["filelog", "httpjson"]


def test_partition_can_be_changed(read):
    changes = {"cpu": {"access": ["--qos=io"], "max_jobs": 7, "time_limit": "9m"}}
    partition = read(FORMS["YAML"], changes=changes)["partition"]
    assert {key: partition[key] for key in changes["cpu"]} == changes["cpu"]


def test_keys_of_others_are_never_refused(read):
    """One that is like ours is asked about, once."""
    names = ("mem_per_node", "cores_per_node", "location", "gpu_arch")
    foreign = dict.fromkeys(names, 1)
    partitions = [{"name": name, **PARTITION, "extras": foreign} for name in ("cpu", "gpu")]
    system = [{**PLAIN["systems"][0], "partitions": partitions}]
    environments = [{"name": "gnu", "extras": {"stack": "2026a", "Spack": 1}}]
    centre = {"centre.py": python({"systems": system, "environments": environments})}
    doubts = read(centre, ("cpu", "gpu"))["doubts"]
    asked = {text.split(" extras have ")[1].split(",")[0] for text in doubts}
    assert len(asked) == len(doubts)
    assert {"mem_per_node", "Spack"} <= asked
    assert "gpu_arch" not in asked
    silent = {"cpu": {"extras": {**foreign, "foreign": sorted(asked)}}}
    assert read(centre, ("cpu", "gpu"), changes=silent)["doubts"] == []


#: A file that cannot be used, and the end of the one line on it.
REFUSED = {
    "centre.py": [
        (
            "import os\nos.environ['NO_ACCOUNT']\nsite_configuration = {}\n",
            "KeyError: 'NO_ACCOUNT'",
        ),
        ("x = 1\n", "is not a valid Python configuration file"),
        ("raise ValueError('set X first')\nsite_configuration = {}\n", "ValueError: set X first"),
        (python({**PLAIN, "systems": []}), "has no system 'hydra': mend the name"),
    ],
    "centre.yaml": [("systems: [", "line 1, column 11")],
    "centre.json": [("{", "JSONDecodeError: Expecting")],
    "centre.txt": [("", "its name ends in .py, .yaml, .yml, .json")],
}


@pytest.mark.parametrize("name", REFUSED)
def test_file_that_cannot_be_used_is_one_line(read, tmp_path, name):
    file = tmp_path / name
    for text, why in REFUSED[name]:
        line = read({name: text}, both=False)
        assert file.name in line
        assert why in line, line


LISTED = """\
from iowatch.site import site

for system in ("archer2", "archer"):
    try:
        config = site.configuration(system)
        print(system, [one["name"] for one in config.get("systems/0/partitions")])
    except site.UserError as err:
        print(system, "refused")
"""


def listed(folder, monkeypatch, *centre):
    """What is known of two systems that iowatch ships, one of which the centre has, too."""
    script = "import os; from iowatch.base.places import config_files\n"
    script += "os.environ['RFM_CONFIG_FILES'] = config_files()\n"
    monkeypatch.setenv("RFM_CONFIG_FILES", ":".join(map(str, centre)))
    monkeypatch.setenv("RFM_PREFIX", str(folder))
    words = [sys.executable, "-c", script + LISTED]
    return subprocess.run(words, capture_output=True, text=True, check=True).stdout.splitlines()


def test_no_shipped_system_stands_in_a_centre_s_way(tmp_path, monkeypatch):
    monkeypatch.delenv("IOWATCH_SITE_DIR", raising=False)
    ours = listed(tmp_path, monkeypatch)
    assert ours[0].startswith("archer2 ['")
    system = {**PLAIN["systems"][0], "name": "archer2"}
    centre = tmp_path / "centre.yaml"
    centre.write_text(yaml.safe_dump({**PLAIN, "systems": [system]}))
    assert listed(tmp_path, monkeypatch, centre) == ["archer2 ['cpu']", ours[1]]
    (tmp_path / "site_configs").mkdir()
    (tmp_path / "site_configs" / "mine.py").write_text("site_configuration = {}\n")
    monkeypatch.setenv("IOWATCH_SITE_DIR", str(tmp_path))
    assert listed(tmp_path, monkeypatch, centre) == ["archer2 ['cpu']", "archer refused"]
