"""Serial devices and port servers: opened, kept open, read and written.

Where a message begins is in framing/.
"""
