"""What is on the disk: journal of readings, state of sessions, backups.

When something must be durable is decided in core/.
"""
