"""A centre's old data, as a results database of its own."""
