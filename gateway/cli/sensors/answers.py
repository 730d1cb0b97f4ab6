"""Which frame answers which request of a sensor's client, and what the answer says."""

from __future__ import annotations

from gateway.cli.sensors.client_states import State
from gateway.frames import (
    Connack,
    Disconnect,
    Frame,
    Pingresp,
    Puback,
    Pubcomp,
    Publish,
    Pubrec,
    Pubrel,
    Regack,
    Register,
    ReturnCode,
    Suback,
    Subscribe,
)

ANSWERS: dict[State, tuple[type[Frame], ...]] = {
    State.CONNECTING: (Connack,),
    State.REGISTERING: (Regack,),
    State.SUBSCRIBING: (Suback,),
    State.PUBLISHING: (Puback, Pubrec),
    State.RELEASING: (Pubcomp,),
    State.PINGING: (Pingresp,),
    State.DOZING: (Disconnect,),
    State.FETCHING: (Pingresp,),
    State.RISING: (Connack,),
    State.LEAVING: (Connack, Disconnect),  # the one or the other
}


def return_code_of(frame: Frame) -> int:
    match frame:
        case Connack() | Regack() | Suback() | Puback():
            return frame.return_code
        case _:
            return ReturnCode.ACCEPTED


def message_id_of(frame: Frame | None) -> int | None:
    """None for the frames that carry none, in a request as in its answer."""
    match frame:
        case Register() | Subscribe() | Publish() | Pubrel():
            return frame.message_id
        case Regack() | Suback() | Puback() | Pubrec() | Pubcomp():
            return frame.message_id
        case _:
            return None
