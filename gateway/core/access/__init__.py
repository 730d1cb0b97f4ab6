"""Who may publish, subscribe, receive and leave a will, by topic: the operator's rules.

Pure. What a peer is known as, and where a refusal is answered, is the engine's and the sessions'.
"""
