"""Performance logs as a results database again."""
