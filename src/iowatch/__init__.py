"""iowatch judges what benchio measured: no figure without a verified write."""

__version__ = "0.1.0"
