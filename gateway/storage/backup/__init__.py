"""A copy of journal and state while the gateway runs, and the way back.

Verbs for it are in cli/.
"""
