"""The collector: from the broker to segments, acknowledged once durable.

Tables are made from segments in spark/.
"""
