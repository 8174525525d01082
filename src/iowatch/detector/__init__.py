"""The detector: is a case slower than its own past?"""
