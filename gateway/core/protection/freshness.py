"""Questions and answers between the two ends, inside an envelope, before or without a packet.

    00 flags [token(8) series(2) counter(4) new series(2)] [token(8)] packet

No packet of MQTT-SN begins with 00, which would be its length. The first part is a question, with
what was refused (0, 0 for nothing): the one that has the key answers it with the token, in the new
series if it had sent what was refused or has no series yet. The second part is an answer.
"""

from __future__ import annotations

import struct
from dataclasses import dataclass

from gateway.frames import MalformedFrame

MARK = b"\x00"
TOKEN_BYTES = 8
_QUESTION, _ANSWER = 1, 2
_ABOUT = struct.Struct(">HIH")
_QUESTION_BYTES = TOKEN_BYTES + _ABOUT.size


@dataclass(slots=True)
class Question:
    """`series` and `counter`: of the envelope that it is about. `new_series`: for the answer."""

    token: bytes
    series: int = 0
    counter: int = 0
    new_series: int = 0


@dataclass(slots=True)
class Talk:
    """`packet`: what is beside question and answer, or nothing."""

    question: Question | None
    answer: bytes
    packet: bytes


def written(question: Question | None, answer: bytes, packet: bytes) -> bytes:
    flags = (question is not None) * _QUESTION | (answer != b"") * _ANSWER
    if not flags:
        return packet
    first = b""
    if question is not None:
        about = _ABOUT.pack(question.series, question.counter, question.new_series)
        first = question.token + about
    return bytes((0, flags)) + first + answer + packet


def read(content: bytes) -> Talk:
    """Of what an envelope has inside. Raises MalformedFrame."""
    if not content.startswith(MARK):
        return Talk(None, b"", content)
    flags, at = content[1:2], 2
    if not flags or flags[0] not in (_QUESTION, _ANSWER, _QUESTION | _ANSWER):
        raise MalformedFrame("envelope with an unknown question inside")
    wanted = bool(flags[0] & _QUESTION) * _QUESTION_BYTES + bool(flags[0] & _ANSWER) * TOKEN_BYTES
    if len(content) < at + wanted:
        raise MalformedFrame("envelope whose question or answer is cut off")
    question, answer = None, b""
    if flags[0] & _QUESTION:
        token = content[at : at + TOKEN_BYTES]
        question = Question(token, *_ABOUT.unpack_from(content, at + TOKEN_BYTES))
        at += _QUESTION_BYTES
    if flags[0] & _ANSWER:
        answer = content[at : at + TOKEN_BYTES]
        at += TOKEN_BYTES
    return Talk(question, answer, content[at:])
