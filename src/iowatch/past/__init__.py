"""The record: runs of ReFrame's database, raw results, hours, and the word on each night.

Its face is `history.read`, which gives `Run`s. It judges nothing, and shows nothing.
"""
