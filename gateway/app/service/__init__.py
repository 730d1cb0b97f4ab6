"""What systemd and a terminal require of a daemon: signals, reload, watchdog, its unit.

What is reloaded is applied by daemon.py.
"""
