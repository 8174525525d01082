"""The measurements of iowatch, as ReFrame tests. The package iowatch judges results."""

from importlib.util import find_spec

if find_spec("iowatch") is None:
    # With an ImportError, ReFrame would skip the checks and exit with 0.
    raise RuntimeError("the package iowatch is not importable: source env.sh first")

from . import reframe_4_10  # noqa: F401 : it refuses another ReFrame
