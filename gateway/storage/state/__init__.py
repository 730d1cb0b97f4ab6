"""Sessions, subscriptions and retained messages over restarts, in SQLite.

Readings are in journal/.
"""
