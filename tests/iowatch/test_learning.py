"""What is made of a result on reads of programs that learn: the law, its metrics, and its parts."""

import json

import pytest
from cases import PLACE, case, metrics_of
from result_file import make_result, turn_into_checkpoint, turn_into_learning

from iowatch.measure.checks import kind_of, metric, rate_name, rate_unit
from iowatch.measure.kinds.learning import CALL_RATES
from iowatch.measure.law import require
from iowatch.measure.result import InvalidResult, read_result

RANKS, SAMPLES, FILES = 4, 50, 5000
#: The bytes of a tree of so many files, as benchio says them.
TREE = 32_481_900
SAMPLE_READS = case("SampleReads", items=SAMPLES, sample=112640, per_file=64)
START = case("EnvironmentStart", items=FILES)
SHARD = 2**20
CHECKPOINT = case("Checkpoint", items=2, sample=SHARD)


@pytest.fixture
def result(tmp_path):
    """result(case, change): of a lawful run of the case, spoiled by change."""

    def make(of, change=None):
        data = make_result(["posix"], repeats=of.check.repeats, local_size=(1, 1, 1))
        if of is START:
            turn_into_learning(data, "startup", FILES, 2 * TREE, RANKS * TREE)
        elif of is CHECKPOINT:
            turn_into_checkpoint(data, 2, SHARD)
        else:
            size = RANKS * SAMPLES * 112640
            turn_into_learning(data, "samples", SAMPLES, size, sample=112640, per_file=64)
        if change:
            change(data)
        path = tmp_path / "result.json"
        path.write_text(json.dumps(data))
        found = read_result(path)
        require(found, of, of.check.repeats, PLACE)
        return found

    return make


def test_samples_have_a_rate_and_an_epoch_its_time(result):
    values = metrics_of(result(SAMPLE_READS), SAMPLE_READS)
    assert set(values) == set(SAMPLE_READS.metrics)
    assert values["total_max"] == pytest.approx(RANKS * SAMPLES * 112640 / 2**20)
    assert (values["samples_median"], values["epoch_s"]) == (pytest.approx(RANKS * SAMPLES), 1.0)
    assert (rate_name(values), rate_unit(values)) == ("total_max", "MiB/s")


def test_a_start_up_is_judged_by_its_files_and_by_each_call(result):
    values = metrics_of(result(START), START)
    assert set(values) == set(START.metrics)
    assert (rate_name(values), rate_unit(values)) == ("files_max", "files/s")
    assert values["files_max"] == pytest.approx(RANKS * FILES)
    assert values["data_median"] == pytest.approx(RANKS * TREE / 2**20)
    assert (values["startup_s"], metric("startup_s").lower_is_better) == (1.0, True)
    parts = START.check.parts(values)
    assert {part.metric: rate for part, rate in parts.items()} == {
        rate: pytest.approx(FILES / 0.1) for rate in CALL_RATES.values()
    }


def test_a_checkpoint_is_judged_by_its_synced_rate_and_has_that_of_the_restart(result):
    made = result(CHECKPOINT)
    values = metrics_of(made, CHECKPOINT)
    assert set(values) == set(CHECKPOINT.metrics)
    assert (rate_name(values), rate_unit(values)) == ("stable_max", "MiB/s")
    assert values["stable_max"] == pytest.approx(3 * RANKS / values["checkpoint_s"])
    assert values["restart_max"] == pytest.approx(3 * RANKS / values["restart_s"])
    measured = kind_of(CHECKPOINT).measured(made, CHECKPOINT)
    rounds = [rep.rates["stable"] for rep in made.measurements[0].repetitions]
    assert measured.rates == {"posix": rounds}
    assert set(measured.slowest()) == {"open", "write", "close", "sync"}


def fewer_reads(data):
    phase = data["cases"][-1]["repetitions"][2]["phases"]["read"]
    phase["operations"] -= 1
    phase["rate"] = phase["operations"] / phase["window"]


def unsynced(data):
    for rep in data["cases"][0]["repetitions"]:
        rep["rates"]["stable"] = rep["rates"]["total"]


def smaller(data):
    data["run"]["sample"] = 1200


def others(data):
    data["run"]["per_file"] = 1


def unconfirmed(data):
    data["cases"][0]["repetitions"][2]["witness"]["bytes"] -= 8


def untimed(data):
    data["cases"][0]["repetitions"][2]["parts"]["stat"]["mean"] = 0


def of_one_tree(data):
    data["cases"][0]["repetitions"][2]["rates"]["total"] /= 2


@pytest.mark.parametrize(
    ("of", "change", "said"),
    [
        (SAMPLE_READS, fewer_reads, "1 repetition of posix in which more or fewer reads"),
        (START, fewer_reads, "1 repetition of posix in which more or fewer reads"),
        (SAMPLE_READS, smaller, "sample: 1200, where 112640 was asked for"),
        (SAMPLE_READS, others, "per_file: 1, where 64 was asked for"),
        (START, unconfirmed, "the witness confirmed more or less than all bytes"),
        (START, untimed, "1 repetition of posix of which a call took no time"),
        (CHECKPOINT, fewer_reads, "1 repetition of posix in which more or fewer reads"),
        (CHECKPOINT, smaller, f"sample: 1200, where {SHARD} was asked for"),
        (CHECKPOINT, unconfirmed, "the witness confirmed more or less than all bytes"),
        (CHECKPOINT, unsynced, "with a rate that is not their bytes over their time"),
        (START, of_one_tree, "with a rate that is not their bytes over their time"),
    ],
)
def test_a_result_that_is_not_of_all_reads_has_no_metric(result, of, change, said):
    with pytest.raises(InvalidResult, match=said):
        result(of, change)
