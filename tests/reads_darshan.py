"""PyDarshan's reader of logs, for tests that need it: they skip where it cannot be loaded."""

import pytest

try:
    from darshan.backend import cffi_backend
except RuntimeError as err:  # for some releases of Python it brings no libdarshan-util
    pytest.skip(f"PyDarshan: {str(err).partition('!')[0]}", allow_module_level=True)

__all__ = ["cffi_backend"]
