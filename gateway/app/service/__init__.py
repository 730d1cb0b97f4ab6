"""What systemd and a terminal ask of a daemon: signals, reload, watchdog, its unit.

What is reloaded is applied by daemon.py.
"""
