"""Scenarios as data: what happens to a board, its network and the gateway, and when.

They are played in rig/.
"""
