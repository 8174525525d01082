"""`iowatch site new`: a configuration from what a machine says of itself."""
