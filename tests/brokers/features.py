"""What the suite tries on every broker, in the order of the rows of docs/brokers.md: the name of
its test without `test_`, and what a reader of the table sees.
"""

from __future__ import annotations

FEATURES: dict[str, str] = {
    "connects": "the gateway connects, and its CONNACK's limits are kept",
    "up_qos_0": "reading at QoS 0",
    "up_qos_1": "reading at QoS 1",
    "up_qos_2": "reading at QoS 2",
    "down_qos_0": "command at QoS 0",
    "down_qos_1": "command at QoS 1",
    "down_qos_2": "command at QoS 2",
    "retained": "retained message for a sensor that subscribes later, and for no other",
    "will": "will of a sensor that vanishes",
    "receive_maximum": "Receive Maximum is used up and not exceeded",
    "packet_size": "Maximum Packet Size: a larger reading is refused, others go on",
    "presence": "state and statistics of the gateway, retained",
    "session_kept": "messages that waited at the broker while the gateway restarted",
    "denied_publish": "forbidden topic: the reading is refused, others go on",
    "denied_subscribe": "forbidden filter: the subscription is refused, others go on",
    "deep_topic": "a topic that the broker does not take does no harm to others",
    "session_lost": "subscriptions again after a broker that forgot everything",
    "many_filters": "twenty subscriptions, also after a broker that forgot everything",
    "restart": "readings during a restart of the broker: each arrives",
    "killed": "readings while the broker is killed and started: each arrives",
    "session_restart": "messages that waited over a restart of a broker that saves its sessions",
}
