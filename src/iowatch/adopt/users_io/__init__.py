"""Users' reads and writes, by Darshan's logs, and a suite that stands for them."""
