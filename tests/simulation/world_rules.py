"""The rules of the gateway that lives in a world."""

from __future__ import annotations

from gateway.app.core_options import first_topic_id
from gateway.core.engine import EngineOptions
from gateway.core.mqtt.options import MqttOptions
from gateway.core.session.options import SessionOptions
from gateway.core.uplink.custody.custody import CustodyOptions
from gateway.core.uplink.uplink import UplinkOptions
from tests.simulation.plan import Plan

GATEWAY_NAME = "gw"
PRESENCE_TOPIC = f"tidegate/{GATEWAY_NAME}/state"
MQTT_CLIENT_ID = "tidegate-gw"
INGEST_TIMEOUT_S = 20.0


def rules_for(plan: Plan, epoch: int) -> EngineOptions:
    return EngineOptions(
        upstream=MqttOptions(
            gateway_name=GATEWAY_NAME,
            epoch=epoch,
            client_id=MQTT_CLIENT_ID,
            trust_session=plan.trust_session,
            waiting_messages_max=plan.waiting_messages_max,
            packet_bytes_max=plan.packet_bytes_max,
        ),
        session=SessionOptions(
            plan.retry_after_s,
            queues_qos_0_for_sleepers=plan.queues_qos_0,
            awake_s_max=plan.awake_s_max,
        ),
        first_topic_id=first_topic_id(epoch, epoch),
        message_id_secret=b"world %d" % epoch,
        saves=True,
        custody=CustodyOptions(plan.keeps, GATEWAY_NAME, INGEST_TIMEOUT_S),
        uplink=UplinkOptions(
            plan.options(plan.acknowledge),
            tuple((each, plan.options(how)) for each, how in plan.overrides.items()),
            plan.spill_after_s,
        ),
    )
