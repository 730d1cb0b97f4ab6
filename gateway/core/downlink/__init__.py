"""From the broker to clients: subscriptions, retained messages, what waits to be saved.

How one client gets its messages is in session/.
"""
