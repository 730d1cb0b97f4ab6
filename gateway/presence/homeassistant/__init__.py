"""Home Assistant's discovery: which entities, units and documents.

When they are sent is in presence/queue.py.
"""
