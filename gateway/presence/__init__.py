"""What is published about the gateway and its devices.

What sensors themselves publish goes through core/uplink/.
"""
