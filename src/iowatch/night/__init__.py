"""A night: run, judged, with alarms of many cases, the change to blame, and who is told.

Its face is `nightly.run` and `gate.night_of`, which give a `Night`. It knows no page.
"""
