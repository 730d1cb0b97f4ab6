"""What the configuration says of some topics, as the core has it."""

from __future__ import annotations

from gateway.app.core_options import uplink_rules
from tests.config.reading import read

TOPICS = """
[[topic]]
filter = "cmd/#"
deliver_within_s = 3600
[[topic]]
filter = "#"
message_expiry_s = 60
"""


def test_a_topic_has_a_time_for_messages_and_one_for_readings() -> None:
    options = uplink_rules(read(TOPICS).settings)
    found = [(name, each.deliver_within_s, each.expiry_s) for name, each in options.overrides]
    assert found == [("cmd/#", 3600.0, 0.0), ("#", 0.0, 60.0)]
    assert options.default.deliver_within_s == 0.0, "none is given to what no filter names"
