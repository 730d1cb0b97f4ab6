"""Log lines: how they look, the thread that writes them, the last ones for the page.

Which events are logged is in event_levels.py.
"""
