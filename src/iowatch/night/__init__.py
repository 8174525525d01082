"""One night: its run, its gate, and what is said of it."""
