"""What a user can mend."""


class UserError(Exception):
    """A mistake in what was given: the message is one line that says what and what to do."""
