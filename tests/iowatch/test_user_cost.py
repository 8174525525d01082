"""What a slow night costs users: which case stands for their output, and the arithmetic."""

from dataclasses import replace

import pytest
from attrs import evolve
from nights import BLESSED, HDF5, changed, ran, red, slow, tonight, unmeasured, unverified, well
from shown import as_message, as_text, html, markdown

from iowatch.night.user_cost import user_costs
from iowatch.site.declared import UserOutput

#: 9000 GiB at 7700 MiB/s take 1197 s, and at 4812.5 MiB/s 1915 s.
WRF = UserOutput(name="a WRF output", size=9000, library="hdf5", ranks=96)
LATE = 4812.5


def costs(*runs, output=WRF, **entry):
    blessed = {run.case: evolve(BLESSED, **entry) for run in runs}
    return user_costs(replace(tonight(*well(), *runs, blessed=blessed), outputs=[output]))


def test_arithmetic_and_words():
    (cost,) = costs(red(rate=LATE))
    assert (cost.usual_s, cost.tonight_s) == pytest.approx((9000 * 1024 / 7700, 9000 * 1024 / LATE))
    # Beside the slow and the fast end of 95 % of nights: exp(1.96 * 0.05) on either side.
    assert cost.tonight_s - cost.low_s == pytest.approx(cost.usual_s * 1.10296, rel=1e-4)
    assert cost.tonight_s - cost.high_s == pytest.approx(cost.usual_s / 1.10296, rel=1e-4)
    assert cost.sentence == (
        "+12 min: a WRF output takes about 32 min instead of 20 min (+10 to 14 min; by hdf5 on fs3)"
    )


def test_less_than_a_minute_is_not_said():
    """Of 718 s in 9000 GiB, 55 s and 65 s are left."""
    assert not costs(red(rate=LATE), output=evolve(WRF, size=9000 / 13))
    assert costs(red(rate=LATE), output=evolve(WRF, size=9000 / 11))


def test_units_are_those_that_people_use():
    def plain(size, rate=LATE):
        (cost,) = costs(red(rate=rate), output=evolve(WRF, size=size))
        return cost.plain

    assert plain(60000) == "+80 min: a WRF output takes about 3 h 33 min instead of 2 h 13 min"
    assert plain(150, 1500) == "+82 s: a WRF output takes about 102 s instead of 20 s"
    assert plain(150, 500) == "+5 min: a WRF output takes about 5 min instead of 20 s"
    same_size = HDF5.bytes / 2**30
    (cost,) = costs(red(rate=8), output=evolve(WRF, size=same_size))
    assert "takes 3 min" in cost.plain, "it was measured, and is not extrapolated"


def test_nothing_is_said_without_a_verified_loss_beyond_the_noise():
    assert not costs(red(rate=0.91 * BLESSED.bandwidth)), "within 95 % of healthy nights"
    assert costs(red(rate=0.91 * BLESSED.bandwidth), spread=0.02)
    assert not costs(ran(rate=LATE)), "the detector does not find it slow"
    assert costs(slow(rate=LATE)), "suspect"
    assert not costs(unmeasured(rate=LATE))
    assert not costs(unverified())
    night = tonight(*well(), red(rate=LATE))
    assert not user_costs(replace(night, outputs=[WRF])), "without a baseline"


def test_case_of_the_same_kind_with_the_nearest_ranks_stands_for_an_output():
    far, near = changed(HDF5, ranks=24), changed(HDF5, ranks=384)
    wanted = evolve(WRF, ranks=512)
    (cost,) = costs(red(far, rate=LATE), red(near, rate=LATE), output=wanted)
    assert cost.case == near
    assert not costs(red(far, rate=LATE), ran(near), output=wanted), "the nearest is well"
    assert not costs(red(far, rate=LATE), unmeasured(near), output=wanted), "nobody knows it"
    for unlike in (
        {"library": "netcdf"},
        {"files": "process"},
        {"operation": "read"},
        {"filesystems": ("fs2",)},
    ):
        assert not costs(red(rate=LATE), output=evolve(WRF, **unlike)), unlike
    assert costs(red(rate=LATE), output=evolve(WRF, filesystems=("fs2", "fs3")))
    strided = changed(HDF5, pattern="strided")
    (cost,) = costs(red(rate=LATE), red(strided, rate=LATE))
    assert cost.case == HDF5, "as benchio writes by itself"


def test_what_is_not_certain_is_up_to():
    """Of two layouts one is well; and time for finishing a file need not grow with its size."""
    other = changed(HDF5, stripe_count=4)
    first, second = costs(red(rate=LATE), red(other, rate=LATE / 2))
    assert (first.case, first.up_to, second.up_to) == (other, False, False)
    assert (first.worst, second.worst) == (True, False)
    (cost,) = costs(red(rate=LATE), ran(other))
    assert cost.plain == "up to +12 min: a WRF output takes up to 32 min instead of 20 min"
    (cost,) = costs(red(rate=2400, finish=0.7, control=7700))
    assert cost.plain.startswith("up to +44 min: ")
    default = changed(HDF5, stripe_count=None, stripe_size=None, layout="default")
    (cost,) = costs(red(rate=LATE), red(default, rate=LATE))
    assert cost.case == default, "the layout that users get"


def test_page_mail_and_chat_say_it():
    night = tonight(*well(), red(rate=LATE), blessed={HDF5: BLESSED})
    night = replace(night, outputs=[WRF])
    (cost,) = user_costs(night)
    page = html(night).replace("&nbsp;", " ")
    assert page.count(f"<dt>Cost to users</dt><dd>{cost.sentence}") == 2
    assert f"cost to users: {cost.sentence}" in as_text(night)
    assert f"cost to users: {cost.sentence}" in as_message(night)
    assert "Cost to users: +12 min" in markdown(night)
    assert "Cost to users" not in html(replace(night, outputs=[]))
