"""The scripted client with messages of our codec: it sends one, and waits for its answer."""

from __future__ import annotations

from gateway.frames import Connect, Frame, Publish, TopicIdType, decode, encode
from hil.rig.scripted_client import BlockingClient

ANSWER_S = 3.0


class AskingSensor(BlockingClient):
    def connect(self, *, clean: bool = True) -> Frame | None:
        return self.ask_for(Connect(self.client_id.encode(), 60, clean_session=clean))

    def publish(self, qos: int, within_s: float = ANSWER_S) -> Frame | None:
        """To the topic `ab`."""
        message_id = self.next_id() if qos else 0
        topic = int.from_bytes(b"ab")
        reading = Publish(topic, message_id, b"21.5", qos, topic_id_type=TopicIdType.SHORT)
        return self.ask_for(reading, within_s if qos else 0.01)

    def ask_for(self, frame: Frame, within_s: float = ANSWER_S) -> Frame | None:
        """None: no answer."""
        self.send(encode(frame))
        return self.receive(within_s)

    def receive(self, within_s: float = ANSWER_S) -> Frame | None:
        """None: nothing came."""
        self.socket.settimeout(within_s)
        try:
            return decode(self.socket.recv(1500))
        except TimeoutError:
            return None
