"""The whole way for `demo`: sensors that do not exist, two gateways, a broker and a collector, each
a process of its own.
"""
