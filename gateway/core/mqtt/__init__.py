"""Our side of one MQTT 5 connection, without its socket.

What sensors are told of it is decided in uplink/ and downlink/.
"""
