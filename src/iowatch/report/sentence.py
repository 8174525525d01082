"""The one sentence that matters of a case's night: how slow, in which phase, and whose fault."""

from __future__ import annotations

from iowatch.case import Case
from iowatch.detector.judgement import IMPROVEMENT, NO_BASELINE, NOISY, OK, TRANSIENT
from iowatch.detector.settings import NORMAL
from iowatch.figures import finish_fraction
from iowatch.phases import slow_phase
from iowatch.report.past import Past, control_rate
from iowatch.results import CONTROL
from iowatch.verdict import TOO_FAST

#: Verdicts whose own sentence says what matters.
_SAY_IT_ALL = frozenset({NO_BASELINE, NOISY, TRANSIENT, IMPROVEMENT, TOO_FAST})


def sentence_of(case: Case, name: str, past: Past) -> str:
    """Such as `hdf5 on fs3, stripes -1: total 2100 of expected 7700 MiB/s; 91 % of the time in
    close; control mpiio normal: the library's close path, not the filesystem`."""
    last = past.tonight[-1]
    said = last.sentence.removeprefix(f"{case}: ") or "the job did not end well, and said nothing"
    if not past.figures:
        return f"{name}: {said}"
    total = f"{name}: {_total(past)}"
    if last.verdict in _SAY_IT_ALL:
        return f"{total}; {said}"
    end, slow = _slow_end(past), _is_slow(past)
    if not (end or slow):
        return total if last.verdict == OK else f"{total}; {said}"
    phase = _part(end, past) if end else slow_phase(past.figures, past.usual)
    control = _control(past, end, is_sure=last.result != "pass")
    return "; ".join(filter(None, [total, phase, control]))


def _total(past: Past) -> str:
    rate = past.figures["total_max"]
    if not past.expected:
        return f"total {rate:.0f} MiB/s"
    return f"total {rate:.0f} of {past.expected.word} {past.expected.value:.0f} MiB/s"


def _is_slow(past: Past) -> bool:
    expected = past.expected
    return bool(expected and past.figures["total_max"] < _floor(past) * expected.value)


def _floor(past: Past) -> float:
    """Below this part of what is expected, a rate is low."""
    expected = past.expected
    if expected and expected.low:
        return expected.low / expected.value
    return 1 - NORMAL.wanted_drop


def _slow_end(past: Past) -> str:
    """`close` or `flush`, if finishing the file takes what the detector calls a signature."""
    finish, usual = finish_fraction(past.figures), finish_fraction(past.usual)
    if finish is None or finish <= NORMAL.close_fraction:
        return ""
    if usual is not None and finish <= max(usual + NORMAL.close_rise, NORMAL.close_fraction):
        ratio = past.figures.get("ratio")
        if ratio is None or not NORMAL.is_defect(finish, ratio):
            return ""
    return "close" if past.figures["close_fraction"] >= finish / 2 else "flush"


def _part(end: str, past: Past) -> str:
    finish, usual = finish_fraction(past.figures), finish_fraction(past.usual)
    text = f"{100 * (finish or 0):.0f} % of the time in {end}"
    return text if usual is None else f"{text}, usually {100 * usual:.0f} %"


def _control(past: Past, end: str, is_sure: bool) -> str:
    """MPI-IO in the same job, and what follows from it; nothing follows from one slow night."""
    rate, usual = control_rate(past.figures), control_rate(past.usual)
    if rate is None:
        return ""
    path = f"the library's {end} path" if end else "the library's path"
    if NORMAL.is_defect(finish_fraction(past.figures) or 0, past.figures["ratio"]):
        is_fault, state = True, "normal" if usual else f"at {rate:.0f} MiB/s in the same job"
    elif usual is None:
        return f"control {CONTROL} at {rate:.0f} MiB/s in the same job"
    else:
        is_fault, state = past.figures["ratio"] < _floor(past) * past.usual["ratio"], "normal"
    if usual is not None and rate < _floor(past) * usual:
        state = f"slow too, {rate:.0f} of usual {usual:.0f} MiB/s"
        blame = f"{path} and the filesystem" if is_fault else "the filesystem, not the library"
        return f"control {CONTROL} {state}" + (f": {blame}" if is_sure else "")
    if not (is_fault and is_sure):
        return f"control {CONTROL} {state}"
    return f"control {CONTROL} {state}: {path}, not the filesystem"
