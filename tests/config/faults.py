"""Seeded faults: what an operator might write, beside every line he must be shown for it."""

NUMBER_LIST = "gateway, udp, upstream, journal, predefined_topics, clients, qos_minus_one, mqtt_sn"

FAULTS: dict[str, tuple[str, list[str]]] = {}
