"""A case as it is asked for: parameters, metrics, the filesystem, and words for what came.

Its face is `case.Case` and `filesystem.Filesystem`. References, verdicts and runs stand here as
data. It knows no check by name, and reads nothing that a job has left.
"""
