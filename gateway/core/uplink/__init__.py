"""From sensors to the broker: when a reading is durable, and its order on the way.

The packets are made in mqtt/, the journal is in storage/.
"""
