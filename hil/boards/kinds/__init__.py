"""The kinds of boards, a file for each, which `registry.py` finds."""
