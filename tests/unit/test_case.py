import re
from dataclasses import replace

import pytest

from iowatch.case import Case, format_size, parse_size

CASE = Case(
    system="local",
    partition="tmpfs",
    environ="gnu",
    operation="write",
    files="shared",
    backend="hdf5",
    stripe_count=None,
    stripe_size=None,
    local_size=(128, 128, 256),
    writers=4,
)
LOAD = replace(CASE, instances=4)
EACH_OST = replace(CASE, stripe_count=1, stripe_size=1, each_ost=True)
PEER = replace(CASE, ior_peer=True)
STRIPED = Case("archer", "fs-3", "cray", "read", "process", "mpiio", -1, 4, (8, 8, 8), 3072)


def test_string_form():
    assert str(CASE) == (
        "local:tmpfs/gnu/write/shared/hdf5/count=none/size=none/local=128x128x256/writers=4"
    )


@pytest.mark.parametrize("case", [CASE, STRIPED, LOAD, EACH_OST, PEER])
def test_string_form_round_trip(case):
    assert Case.parse(str(case)) == case


@pytest.mark.parametrize("case", [CASE, STRIPED, LOAD, EACH_OST, PEER])
def test_string_form_as_a_regular_expression_matches_only_itself(case):
    assert "|" not in str(case)
    assert re.fullmatch(str(case), str(case))
    others = [other for other in (CASE, STRIPED, LOAD, EACH_OST, PEER) if other is not case]
    assert not any(re.fullmatch(str(case), str(other)) for other in others)


@pytest.mark.parametrize(
    "text",
    [
        "",
        str(CASE) + "\n",
        str(CASE).replace("writers=4", "writers=0"),
        str(CASE).replace("count=none", "count=0"),
        str(CASE).replace("128x128x256", "128"),
        str(CASE).replace("local:tmpfs", "local|tmpfs"),
        str(CASE).replace("/shared", ""),
        str(LOAD).replace("instances=4", "instances=0"),
        str(EACH_OST).replace("offset=each", "offset=7"),
        str(PEER).replace("peer=ior", "peer=fio"),
    ],
)
def test_what_is_no_case_is_refused(text):
    with pytest.raises(ValueError, match="not a case"):
        Case.parse(text)


def test_size_of_a_cube_is_written_in_full():
    assert format_size(parse_size(64)) == format_size(parse_size("64")) == "64x64x64"
    assert parse_size("1x2x3") == (1, 2, 3)


@pytest.mark.parametrize("text", ["0", "-1", "1x2", "1x2x3x4", "1x0x2", "a", "", 0, True, 1.5])
def test_what_is_no_size_is_refused(text):
    with pytest.raises(ValueError, match="is not a size"):
        parse_size(text)
