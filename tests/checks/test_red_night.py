"""The tutorial of the first red night, as its reader types it."""

import os
import re
import subprocess
import tempfile
from datetime import UTC, datetime, timedelta
from textwrap import dedent

import pytest
from conftest import ROOT

PAGE = ROOT / "docs/tutorials/red-night.md"
BUSY = "unjudged (node_busy)"  # other programs used the processors: the page says so


@pytest.mark.slow
def test_staged_incident_is_told_accepted_and_mended(tmp_path, benchio):
    with tempfile.TemporaryDirectory(prefix="iowatch-tutorial.", dir="/dev/shm") as memory:
        day = datetime.now(UTC) + timedelta(7)
        text = PAGE.read_text().replace("/dev/shm/mine", memory).replace("DAY", f"{day:%Y-%m-%d}")
        text = text.replace("/tmp/mine", str(tmp_path / "mine"))
        make, suite, healthy, library, entry, red, blame, accept, mended = map(
            dedent, re.findall(r"(?m)((?:^    .*\n)+)", text)
        )
        file = tmp_path / "mine/site_configs/mine.py"

        environment = {name: text for name, text in os.environ.items() if name != "RFM_PREFIX"}

        def typed(commands, code=0):
            head = f"cd {ROOT}\n{make[: make.index('iowatch site')]}"
            done = subprocess.run(
                ["bash", "-ec", head + commands], env=environment,
                stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
            )  # fmt: skip
            assert done.returncode == code or BUSY in done.stdout, done.stdout
            return done.stdout

        def edited(pattern, new):
            text, changes = re.subn(pattern, lambda _: new, file.read_text())
            assert changes == 1
            file.write_text(text)

        typed(make)
        edited(r'(?s)"nightly": \{.*?\n            \},', suite.strip())
        typed(healthy)
        typed(library)
        edited(r'(?<="env_vars": \[)(?=\])', entry.strip())
        shown = typed(red, code=1)
        is_red = BUSY not in shown
        if is_red:
            assert "regression (slow_library)" in shown
            assert "LD_PRELOAD" in typed(blame)
        shown = typed(accept)
        assert "(slow_library, known)" in shown or BUSY in shown, shown
        edited(re.escape(entry.strip()), "")
        shown = typed(mended)
        assert ("known)" in shown) == is_red or BUSY in shown, shown
