"""The process: it builds all parts from the settings, runs them and stops them.

No rule of a protocol is in here, and no command line.
"""
