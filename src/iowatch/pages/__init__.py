"""A night shown: page, plots, tables, JSON, export and the page for users.

Its face is `report.write_page(night, folder)`. It decides nothing on a case or night.
"""
