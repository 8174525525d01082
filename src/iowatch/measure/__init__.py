"""A job as it ended: its result, the law, its metrics, and what else went on.

Its face is `checks.CHECKS` and `checks.kind_of(case).read(job)`, which gives `Measured` or raises
`InvalidResult`. A check is one file of `kinds`. It knows no other run, and no verdict.
"""
