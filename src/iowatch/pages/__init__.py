"""The page of a night: what stands on it, and how it is drawn."""
