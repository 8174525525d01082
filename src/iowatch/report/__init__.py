"""The report of a night, for people: what it says (`model`), and its pages (`pages`)."""
