"""Evidence for others: an acceptance test by its contract, and a certificate of a change.

Its face is `accept.accept`, `certify.certify` and `bundle.verify`. It takes part in no night.
"""
