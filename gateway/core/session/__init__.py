"""One client's conversation in MQTT-SN: states, topics, messages up and down.

Which client it is, and whether it may come in, is in clients/.
"""
