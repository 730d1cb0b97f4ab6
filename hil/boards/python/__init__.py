"""A sensor in CPython that shares nothing with our firmware: for the question whether a scenario's
outcome is the gateway's or the firmware's doing.
"""
