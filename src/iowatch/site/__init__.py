"""A site as its people describe it: systems, suites, reference values, excuses and events.

Its face is `site.read_site`, which gives a `Site` or raises `UserError`. It knows no run.
"""
