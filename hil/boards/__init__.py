"""The kinds of boards."""
