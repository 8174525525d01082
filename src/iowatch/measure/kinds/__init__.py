"""The checks: a module is one kind, whole, and nobody else asks which it is.

Whoever adds a check writes its class in reframe_checks, its object in a module here, and a test.
"""
