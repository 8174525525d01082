"""The white paper: its tables as data, its figures drawn."""
