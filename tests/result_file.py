"""A benchio.result/3 as an error-free run would write it, for tests to spoil.

Nothing of iowatch is imported: a stand-in for benchio starts with this in every job.
"""

import math
from copy import deepcopy
from hashlib import sha256
from math import prod

SECONDS = {"open": 0.01, "define": 0.01, "write": 0.9, "close": 0.08, "total": 1.0}
SECONDS |= {"sync": 0.25, "stable": 1.25, "unlink": 0.01}


def of_job(value, is_telling=False, other=None):
    """What a result says of a variable of the job; `other` is what rank 1 has in its place."""
    shown = [
        text if is_telling or text is None else f"sha256:{sha256(text.encode()).hexdigest()[:16]}"
        for text in (value, other)
    ]
    differs = other is not None
    return {
        "telling": is_telling, "value": shown[0], "other_rank": 1 if differs else None,
        "other_host": "node1" if differs else None, "other_value": shown[1],
    }  # fmt: skip


def make_result(
    backends=("mpiio",),
    ranks=4,
    local_size=(64, 64, 64),
    repeats=10,
    filesystem="tmpfs",
    directory="/dev/shm/iowatch/iowatch.abcdef",
    slowdown=None,
    run_id="0123456789abcdef",
    started="2026-01-31T01:02:03.004Z",
):
    """All rounds take 1 s, and their sync 0.25 s; `slowdown` gives a backend's factor on all of its
    times."""
    size = 8 * prod(local_size) * ranks
    return {
        "schema": "benchio.result/3",
        "status": "ok",
        "error": None,
        "started": started,
        "benchio": {"version": "stand-in", "compiler": "none", "compiler_options": ""},
        "libraries": {"mpi": "none", "hdf5": None, "netcdf": None, "pnetcdf": None},
        "environment": {"variables": {}, "contents": {}, "libraries": {}, "mpi_io": None,
                        "other_rank": None, "of_job": {}},
        "run": {
            "id": run_id, "ranks": ranks, "hosts": ["node1"], "directory": directory,
            "filesystem": {
                "type": filesystem, "magic": "0x1021994", "mount_type": filesystem,
                "identity": f"{filesystem} at /dev/shm on node1", "mount_point": "/dev/shm",
                "source": filesystem, "options": "rw,relatime,rw", "uuid": None, "fsid": None,
                "bytes": 2 * 10**12, "free_bytes": 10**12, "mdt_index": None,
            },
            "operations": ["write"], "files": "shared", "file_count": 1, "instances": 1,
            "file_size": [local_size[0], local_size[1], local_size[2] * ranks],
            "global_size": None, "local_size": list(local_size), "grid": [1, 1, ranks],
            "contiguous_bytes": 8 * prod(local_size), "halo": 1, "bytes": size,
            "transfer": 2**30, "flush": False, "direct": False, "repeats": repeats, "warmup": 1,
            "settle": 0, "phase_barrier": False, "phase_limit": 1800, "time_limit": 0,
            "alignment": 1, "chunk": [0, 0, 0], "file_format": "earliest",
            "access": {
                "order": "blocks", "steps": 1, "variables": 1, "deflate": 0, "quantize": 0,
                "nonblocking": False, "subfiles": 0,
            },
        },
        "memory": {"field_mib": 2.0, "peak_rss_mib": 50.0, "peak_rank": 0},
        "cases": [
            make_case(backend, size, repeats, (slowdown or {}).get(backend, 1.0))
            for backend in backends
        ],
    }  # fmt: skip


def make_case(backend, size, repeats, factor):
    """One backend: a slow warm-up, then `repeats` rounds that all take the same time."""
    return {
        "operation": "write",
        "backend": backend,
        "target": None,
        "hints": {"requested": {}, "echoed": None, "observed": None},
        "collective": {"requested": True, "echoed": None, "observed": None},
        "collective_metadata": {"requested": True, "echoed": None, "observed": None},
        "layout": {"requested": None, "echoed": None, "observed": None},
        "subfiles": None,
        "cache": None,
        "repetitions": [make_repetition(number, size, factor) for number in range(1, repeats + 2)],
    }


def make_repetition(number, size, factor):
    warmup = number == 1
    seconds = {p: time * factor * (10 if warmup else 1) for p, time in SECONDS.items()}
    mib = size / 2**20
    return {
        "round": number,
        "position": 1,
        "warmup": warmup,
        "started": f"2026-01-31T01:{number // 60:02}:{number % 60:02}.500Z",
        "phases": {
            phase: {
                "min": time / 2, "mean": time / 2, "max": time, "slowest_rank": 0,
                "slowest_host": "node1", "window": time, "file_window": time,
                **(span(time) if phase in ("total", "stable") else {}),
            }
            for phase, time in seconds.items()
        },
        "parts": {},
        "nodes": {
            "mib": spread(mib), "write": spread(seconds["write"]), "sync": spread(seconds["sync"]),
        },
        "clocks_agree": True,
        "clock_step": 1e-12,
        "rates": {
            "data": mib / seconds["write"],
            "total": mib / seconds["total"],
            "stable": mib / seconds["stable"],
        },
        "instances": None,
        "file_bytes": size,
        "witness": {
            "method": "pread", "direct": True, "bytes": size, "page_cache_fraction": 0.0,
            "other_node_byte_fraction": 0.0,
        },
    }  # fmt: skip


def span(seconds):
    """What is known besides of a phase that has others in it."""
    return {"by_ranks": seconds, "by_rank_0": seconds, "between": 0.02, "overlap": 0.02}


def spread(value):
    """A figure of the only node."""
    return {
        "nodes": 1, "each": [value], "quantiles": [value] * 5, "least": "node1", "most": "node1",
    }  # fmt: skip


def turn_into_read(result, suspect):
    """A result of reads, which has fewer phases and rates."""
    result["run"]["operations"] = ["read"]
    for one in result["cases"]:
        one["operation"] = "read"
        one["cache"] = {
            "other_node_byte_fraction": 0.0, "page_cache_fraction": 0.0, "suspect": suspect,
        }  # fmt: skip
        for rep in one["repetitions"]:
            del rep["rates"]["stable"]
            rep["phases"]["read"] = rep["phases"].pop("write")
            rep["nodes"] = {"mib": rep["nodes"]["mib"], "read": rep["nodes"]["write"]}
            for phase in ("sync", "stable", "unlink"):
                del rep["phases"][phase]


def timed(result, backend=1):
    """The repetitions of a backend without its warm-up."""
    return [rep for rep in result["cases"][backend]["repetitions"] if not rep["warmup"]]


def laid_out(stripe_count=1, stripe_size=2**20, pool=None, osts=(), **more):
    """What a filesystem says of a file with a plain layout; `more` replaces members."""
    stripes = {"stripe_count": stripe_count, "stripe_size": stripe_size, "pool": pool}
    stripes["osts"] = list(osts)
    whole = {"first_byte": 0, "end_byte": None, "pattern": "raid0", "is_instantiated": True}
    return {**stripes, "components": [{**whole, **stripes}], "said": None, **more}


def asked(stripe_count=None, stripe_size=None, pool=None, setstripe=None):
    """The layout that benchio was told, as its result repeats it."""
    numbers = {"stripe_count": stripe_count, "stripe_size": stripe_size, "pool": pool}
    return {**numbers, "setstripe": setstripe}


def lay_out(requested, observed):
    """A change of a result: all of its files were asked for one layout and have another."""

    def change(result):
        for one in result["cases"]:
            one["layout"] = {"requested": requested, "echoed": None, "observed": observed}

    return change


def turn_into_targets(result, names, rates=None, is_lustre=True):
    """A result of one backend that wrote to each target by itself and read from it; its best rate,
    MiB/s, is that of `rates`, of a read twice as much."""
    as_read = deepcopy(result)
    turn_into_read(as_read, suspect=False)
    operations = [result["cases"][0], as_read["cases"][0]]
    result["run"]["operations"] = ["write", "read"]
    result["cases"] = [
        _on_target(deepcopy(one), name, (rates or {}).get(name), is_lustre)
        for one in operations
        for name in names
    ]


def _on_target(one, name, rate, is_lustre):
    one["target"] = {"name": name, "error": None}
    observed = laid_out(osts=[int(name)]) if is_lustre else laid_out(pool=name)
    one["layout"] = {"requested": asked(1, 2**20), "echoed": None, "observed": observed}
    for number, rep in enumerate(one["repetitions"]) if rate else ():
        factor = (1, 1, 2, 3)[number % 4]  # the best is the first that counts
        kind, most = ("stable", rate) if "stable" in rep["rates"] else ("total", 2 * rate)
        seconds = rep["rates"][kind] * factor / most
        rep["rates"] = {name: value / seconds for name, value in rep["rates"].items()}
        for phase in rep["phases"].values():
            phase.update({key: s * seconds for key, s in phase.items() if isinstance(s, float)})
    return one


def turn_into_learning(result, operation, items, written, moved=None, **run):
    """A result of reads from file to file: so many samples of each rank, or files of a tree; bytes
    that were written, and moved where ranks read the same; `run` are members of its run."""
    turn_into_read(result, suspect=False)
    reads, moved = items * result["run"]["ranks"], moved or written
    result["run"] |= {"operations": [operation], "items": items, "bytes": written, **run}
    result["run"]["local_size"] = [1, 1, 1]
    (one,) = result["cases"]
    one["operation"], one["backend"] = operation, "posix"
    part = {"min": 0.1, "mean": 0.1, "max": 0.1, "slowest_rank": 0, "slowest_host": "node1"}
    for rep in one["repetitions"]:
        total = rep["phases"]["total"] | {"between": 0.02, "overlap": 0.02}
        seconds, mib = total["window"], moved / 2**20
        read = {key: s for key, s in total.items() if key in rep["phases"]["read"]}
        read |= {"operations": reads, "rate": reads / seconds}
        rep["phases"] = {"read": read, "total": total}
        rep["parts"] = {name: dict(part) for name in ("stat", "open", "read", "close", "check")}
        rep["nodes"] = {"mib": spread(mib), "read": spread(seconds)}
        rep["rates"] = {"data": mib / seconds, "total": mib / seconds}
        rep["file_bytes"] = rep["witness"]["bytes"] = written


def turn_into_checkpoint(result, items, shard):
    """A result of a checkpoint and the restart of it: so many shards of each rank."""
    written = deepcopy(result["cases"][0])
    size = result["run"]["ranks"] * (items + 1) * shard
    turn_into_learning(result, "checkpoint", items, size, sample=shard)
    result["run"]["operations"] = ["checkpoint", "restart"]
    (read,) = result["cases"]
    read["operation"], written["operation"], written["backend"] = "restart", "checkpoint", "posix"
    for rep in read["repetitions"]:
        phase = rep["phases"]["read"]
        phase["operations"] = result["run"]["ranks"] * (items + 1)
        phase["rate"] = phase["operations"] / phase["window"]
    for rep in written["repetitions"]:
        phases = rep["phases"]
        del phases["unlink"]
        define = phases.pop("define")["window"]
        for span in ("total", "stable"):
            phases[span]["between"] += define
        mib = size / 2**20
        data = phases["write"]["window"]
        rep["rates"] = {"data": mib / data}
        rep["rates"] |= {span: mib / phases[span]["window"] for span in ("total", "stable")}
        rep["nodes"]["mib"] = spread(mib)
        rep["file_bytes"] = rep["witness"]["bytes"] = size
    result["cases"] = [written, read]


#: Seconds of each phase of names, in the order of time.
NAME_SECONDS = {
    "mkdir": 0.2, "create": 0.5, "sync": 0.3, "stat": 0.1, "list": 0.05, "rename": 0.2,
    "read": 0.15, "unlink": 0.3, "rmdir": 0.1,
}  # fmt: skip


def turn_into_names(result, items, slowdown=None, mdt=None):
    """A result of names: so many files, and directories, of each writer; `slowdown` gives a phase's
    factor on all of its times. Round 3 is the fastest, in all phases but stat."""
    run = result["run"]
    each = items * run["ranks"]
    size = run["ranks"] * sum(8 * (1 + item % 4) for item in range(items))
    run |= {"operations": ["metadata"], "items": items, "bytes": size, "local_size": [1, 1, 1]}
    run["filesystem"]["mdt_index"] = mdt
    (one,) = result["cases"]
    one["operation"], one["backend"] = "metadata", "posix"
    for rep in one["repetitions"]:
        seconds = {phase: s * (slowdown or {}).get(phase, 1.0) for phase, s in NAME_SECONDS.items()}
        if rep["round"] == 3:
            seconds = {phase: s * (2 if phase == "stat" else 0.5) for phase, s in seconds.items()}
        example = next(iter(rep["phases"].values()))
        rep["phases"] = {
            phase: example | {"min": s / 2, "mean": s / 2, "max": s, "window": s, "file_window": s}
            for phase, s in seconds.items()
        }
        for phase, time in rep["phases"].items():
            if phase != "sync":
                count = 2 * each if phase == "list" else each
                time |= {"operations": count, "rate": count / time["window"]}
        rep["nodes"] = None
        rep["rates"] = {}
        rep["witness"] |= {"bytes": size, "names": 2 * each, "page_cache_fraction": None}


#: The median seconds of each call.
CALL_SECONDS = {
    "open": 1e-4, "stat": 5e-5, "create": 4e-4, "write": 3e-3, "read": 8e-4, "list": 2e-4,
}  # fmt: skip


def turn_into_calls(result, seconds, slowdown=None, cycles=1000, cold=True):
    """A result of single calls, of which 98 in 100 take the median, and 2 ten times as long."""
    run = result["run"]
    run |= {"operations": ["latency"], "seconds": seconds, "bytes": 4096, "local_size": [1, 1, 1]}
    (one,) = result["cases"]
    one["operation"], one["backend"] = "latency", "posix"
    slow = cycles // 50
    for rep in one["repetitions"]:
        example, rep["phases"], calls = next(iter(rep["phases"].values())), {}, {}
        for call, median in CALL_SECONDS.items():
            median *= (slowdown or {}).get(call, 1.0)
            total = median * (cycles + 9 * slow)
            rep["phases"][call] = example | {
                "min": total, "mean": total, "max": total, "window": total, "file_window": total,
                "operations": cycles, "rate": cycles / total,
            }  # fmt: skip
            first = math.ceil(20 * math.log10(median / 1e-7))
            calls[call] = {
                "p50": [median, median, median],
                "p99": [10 * median, 10 * median, 10 * median],
                "p999": [10 * median, 10 * median, None],
                "longest": 10 * median,
                "first_bucket": first,
                "buckets": [cycles - slow, *[0] * 19, slow],
            }
        rep["latency"] = {"clock": 2.5e-8, "cold": cold, "calls": calls}
        rep["nodes"], rep["rates"] = None, {}
        rep["file_bytes"] = 4096 * (cycles + 32)
        rep["witness"] |= {
            "bytes": rep["file_bytes"], "direct": False, "page_cache_fraction": 0.0 if cold else 1.0
        }  # fmt: skip
