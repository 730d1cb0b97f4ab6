"""The states of a sensor's conversation with its gateway.

Rules: what is not in the table cannot happen; a client that gets DISCONNECT, or no answer after
N_retry, is AWAY and starts again with CONNECT; a request is open in every state but AWAY,
READY, ASLEEP and GONE, and there is never a second one (6.10 allows one outstanding REGISTER or
SUBSCRIBE, 6.6 one PUBLISH). A client that is ASLEEP has its radio off: it receives nothing.
"""

from __future__ import annotations

from enum import Enum, auto


class State(Enum):
    AWAY = auto()  # no conversation: not started, or pausing before the next CONNECT
    CONNECTING = auto()  # awaits CONNACK
    REGISTERING = auto()  # awaits REGACK for the topic of its readings
    SUBSCRIBING = auto()  # awaits SUBACK for the topic of its commands
    READY = auto()
    PUBLISHING = auto()  # QoS 1 or 2: awaits PUBACK or PUBREC
    RELEASING = auto()  # QoS 2: awaits PUBCOMP
    PINGING = auto()  # awaits PINGRESP
    DOZING = auto()  # awaits the answer to its own DISCONNECT with a duration
    ASLEEP = auto()
    FETCHING = auto()  # woke by PINGREQ: awaits PINGRESP, which comes behind what waited (6.14)
    RISING = auto()  # awaits CONNACK to the CONNECT that wakes it; its topic ids still hold
    LEAVING = auto()  # awaits the answer to its own DISCONNECT, or to the CONNECT before it
    GONE = auto()


class Input(Enum):
    CONNECT = auto()  # the device starts, or the pause is over
    ANSWERED = auto()  # the request is answered
    RECEIVED = auto()  # PUBREC
    TOPIC_UNKNOWN = auto()  # return code 0x02 for the topic of its readings
    PUBLISH = auto()
    RELEASE = auto()  # after a reconnect: the PUBREC came in the conversation before
    PING = auto()
    SLEEP = auto()  # nothing is left to do
    FETCH = auto()  # its sleep time is over
    LEAVE = auto()
    FAILED = auto()  # no answer after N_retry, refused, or DISCONNECT from the gateway


TRANSITIONS: dict[State, dict[Input, State]] = {
    State.AWAY: {Input.CONNECT: State.CONNECTING, Input.LEAVE: State.GONE},
    State.CONNECTING: {
        Input.ANSWERED: State.REGISTERING,
        Input.FAILED: State.AWAY,
        Input.LEAVE: State.LEAVING,
    },
    State.REGISTERING: {
        Input.ANSWERED: State.SUBSCRIBING,
        Input.FAILED: State.AWAY,
        Input.LEAVE: State.LEAVING,
    },
    State.SUBSCRIBING: {
        Input.ANSWERED: State.READY,
        Input.FAILED: State.AWAY,
        Input.LEAVE: State.LEAVING,
    },
    State.READY: {
        Input.PUBLISH: State.PUBLISHING,
        Input.RELEASE: State.RELEASING,
        Input.PING: State.PINGING,
        Input.SLEEP: State.DOZING,
        Input.TOPIC_UNKNOWN: State.REGISTERING,
        Input.FAILED: State.AWAY,
        Input.LEAVE: State.LEAVING,
    },
    State.PUBLISHING: {
        Input.ANSWERED: State.READY,
        Input.RECEIVED: State.RELEASING,
        Input.TOPIC_UNKNOWN: State.REGISTERING,
        Input.FAILED: State.AWAY,
        Input.LEAVE: State.LEAVING,
    },
    State.RELEASING: {
        Input.ANSWERED: State.READY,
        Input.FAILED: State.AWAY,
        Input.LEAVE: State.LEAVING,
    },
    State.PINGING: {
        Input.ANSWERED: State.READY,
        Input.TOPIC_UNKNOWN: State.REGISTERING,
        Input.FAILED: State.AWAY,
        Input.LEAVE: State.LEAVING,
    },
    State.DOZING: {
        Input.ANSWERED: State.ASLEEP,
        Input.FAILED: State.AWAY,
        Input.LEAVE: State.LEAVING,
    },
    State.ASLEEP: {
        Input.FETCH: State.FETCHING,
        Input.CONNECT: State.RISING,
        Input.LEAVE: State.LEAVING,
    },
    State.FETCHING: {
        Input.ANSWERED: State.ASLEEP,
        Input.FAILED: State.AWAY,
        Input.LEAVE: State.LEAVING,
    },
    State.RISING: {
        Input.ANSWERED: State.READY,
        Input.FAILED: State.AWAY,
        Input.LEAVE: State.LEAVING,
    },
    State.LEAVING: {Input.ANSWERED: State.GONE, Input.FAILED: State.GONE},
    State.GONE: {},
}
