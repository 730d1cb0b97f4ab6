"""All clients: who is let in, who is where, how many a second, how a gateway is found.

What one client says and gets is in session/.
"""
