"""A site taken up: its file drafted and tried, and suites proposed from its users' I/O.

Its face is `site_new`, `site_check` and `users_io`. It knows nights, and no page.
"""
