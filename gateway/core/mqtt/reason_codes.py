"""MQTT 5 reason codes as sentences that say what to do."""

from __future__ import annotations

_ADVICE = {
    0x81: "it calls our packet malformed; its log may name the topic that it does not take",
    0x82: "it calls our packet a protocol error; its log may name the topic that it does not take",
    0x84: "it does not speak MQTT 5; use a broker that does (mosquitto 1.6 or newer)",
    0x85: "it does not accept our client id; set upstream.client_id",
    0x86: "bad user name or password; check upstream.username and upstream.password_file",
    0x87: "not authorised; check the broker's access rules for this user and topic",
    0x88: "it is unavailable; it will be tried again",
    0x89: "it is busy; it will be tried again",
    0x8A: "it has banned this client; ask its operator",
    0x8B: "it is shutting down; it will be tried again",
    0x8C: "it wants another authentication method than user name and password",
    0x8D: "it heard nothing from us for its keep-alive; is this machine overloaded?",
    0x8E: "another client took over our session; give each gateway a gateway.name of its own",
    0x8F: "it does not accept this topic filter",
    0x90: "it does not accept this topic name",
    0x93: "it says we sent more than its Receive Maximum; half as much is sent from now on",
    0x95: "a packet was larger than it takes; raise its limit or lower limits.payload_bytes_max",
    0x96: "it says we send too fast; it is given time",
    0x97: "a quota of the broker is exceeded; it is given time",
    0x98: "its operator closed the connection",
    0x99: "it says the payload has not the format that was declared",
    0x9A: "it does not keep retained messages",
    0x9B: "it does not support this QoS",
    0x9C: "it asks us to use another server; set upstream.url",
    0x9D: "the server has moved; set upstream.url",
    0x9F: "it says we connect too often; it will be tried again later",
}

# mosquitto answers a wrong password so.
_ADVICE_AT_CONNECT = {
    0x87: "not authorised; check upstream.username and upstream.password_file, and that the broker "
    "lets this user write the gateway's presence topic",
}


def spoken(packet: str, code: int, detail: str | None, server: str | None = None) -> str:
    """One clause for a log line: what the broker said, its own words, and what to do."""
    advice = _ADVICE.get(code, "see MQTT 5, 2.4 for the reason code")
    if packet == "CONNACK":
        advice = _ADVICE_AT_CONNECT.get(code, advice)
    words = f' ("{detail}")' if detail else ""
    if server:
        words += f", naming the server {server!r}"
    return f"the broker answered {packet} {code:#04x}{words}: {advice}"
