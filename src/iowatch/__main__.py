"""`python -m iowatch`: the command line where the entry point is not installed."""

from iowatch.cli import main

main()
