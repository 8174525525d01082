"""The ground: files, locks, records, commands, places and drawing, for any subject.

It knows no check, no site and no night. Everybody may ask it; it asks nobody.
"""
