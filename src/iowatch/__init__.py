"""iowatch judges what benchio measured: no figure without a verified write."""
