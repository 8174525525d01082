"""What was measured before: history, baselines, and a centre's old data."""
