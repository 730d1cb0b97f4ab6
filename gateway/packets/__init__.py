"""Bytes to MQTT 5 packets and back: their layout, nothing of what they mean. Pure.

The one package of the gateway that another program imports: the collector (spark_ingest/collect/).
"""
