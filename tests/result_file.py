"""A benchio.result/1 as an error-free run would write it, for tests to spoil."""

from math import prod

from cases import case

CASE = case()

SECONDS = {"open": 0.01, "define": 0.01, "write": 0.5, "sync": 0.3, "close": 0.08, "total": 1.0}


def make_result(
    backends=("mpiio",),
    writers=4,
    local_size=(64, 64, 64),
    repeats=10,
    filesystem="tmpfs",
    directory="/dev/shm/iowatch/iowatch.abcdef",
    slowdown=None,
):
    """All rounds take 1 s; `slowdown` gives a backend's factor on all of its times but sync: that
    much longer than MPI-IO's it would be a signature of its own."""
    size = 8 * prod(local_size) * writers
    return {
        "schema": "benchio.result/1",
        "status": "ok",
        "error": None,
        "started": "2026-01-31T01:02:03Z",
        "benchio": {"version": "stand-in", "compiler": "none", "compiler_options": ""},
        "libraries": {"mpi": "none", "hdf5": None, "netcdf": None},
        "environment": {},
        "run": {
            "writers": writers,
            "hosts": ["node1"],
            "directory": directory,
            "filesystem": {"type": filesystem, "magic": "0x1021994", "free_bytes": 10**12},
            "operations": ["write"],
            "files": "shared",
            "file_count": 1,
            "instances": 1,
            "file_size": [local_size[0], local_size[1], local_size[2] * writers],
            "global_size": None,
            "local_size": list(local_size),
            "grid": [1, 1, writers],
            "contiguous_bytes": 8 * prod(local_size),
            "halo": 1,
            "bytes": size,
            "seed": 1,
            "repeats": repeats,
            "warmup": 1,
            "sync": "data",
            "verify": "all",
            "phase_barrier": False,
            "phase_limit": 1800,
            "time_limit": 0,
            "alignment": 1,
            "chunk": [0, 0, 0],
            "collective_metadata": True,
            "file_format": "earliest",
        },
        "memory": {"field_mib": 2.0, "peak_rss_mib": 50.0, "peak_rank": 0},
        "cases": [
            make_case(backend, size / 2**20, repeats, (slowdown or {}).get(backend, 1.0))
            for backend in backends
        ],
    }


def make_case(backend, mib, repeats, factor):
    """One backend: a slow warm-up, then `repeats` rounds that all take the same time."""
    rounds = [make_repetition(number, mib, factor) for number in range(1, repeats + 2)]
    rates = {name: statistics(rounds[-1]["rates"][name], repeats) for name in rounds[-1]["rates"]}
    return {
        "operation": "write",
        "backend": backend,
        "hints": {"requested": {}, "echoed": None, "observed": None},
        "collective": {"requested": True, "echoed": None, "observed": None},
        "striping": {"requested": None, "echoed": None, "observed": None},
        "cache": None,
        "repetitions": rounds,
        "summary": rates,
    }


def make_repetition(number, mib, factor):
    warmup = number == 1
    factors = {phase: 1.0 if phase == "sync" else factor for phase in SECONDS}
    seconds = {p: time * factors[p] * (10 if warmup else 1) for p, time in SECONDS.items()}
    return {
        "round": number,
        "position": 1,
        "warmup": warmup,
        "phases": {
            phase: {
                "min": time / 2,
                "mean": time / 2,
                "max": time,
                "slowest_rank": 0,
                "slowest_host": "node1",
            }
            for phase, time in seconds.items()
        },
        "rates": {
            "data": mib / seconds["write"],
            "stable": mib / (seconds["write"] + seconds["sync"]),
            "total": mib / seconds["total"],
        },
        "instances": None,
        "verification": "passed",
    }


def statistics(rate, count):
    names = ("min", "q1", "median", "q3", "max", "mean")
    return {"count": count, **dict.fromkeys(names, rate), "cov": 0.0}


def turn_into_read(result, suspect):
    """A result of reads, which has fewer phases and rates."""
    result["run"]["operations"] = ["read"]
    for one in result["cases"]:
        one["operation"] = "read"
        one["cache"] = {
            "shift": 1, "other_node_fraction": 0, "resident_fraction": 0, "suspect": suspect,
        }  # fmt: skip
        del one["summary"]["stable"]
        for rep in one["repetitions"]:
            del rep["rates"]["stable"]
            rep["phases"]["read"] = rep["phases"].pop("write")
            del rep["phases"]["define"], rep["phases"]["sync"]


def timed(result, backend=1):
    """The repetitions of a backend without its warm-up."""
    return [rep for rep in result["cases"][backend]["repetitions"] if not rep["warmup"]]
