"""A run among its past: the detector, blessed baselines, and the verdict with its reason.

Its face is `judge.judge`, which gives a `Verdict`. What it judges it is given: it reads no history,
and knows no site's file and no night.
"""
