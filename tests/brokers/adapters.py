"""The brokers, in the order of the table: how each is configured and started."""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from pathlib import Path
from typing import ClassVar

from hil.rig.mosquitto import find_mosquitto, mosquitto_version
from tests.brokers.broker import SITE, Broker, Recipe, Settings
from tests.brokers.limits import Denial, Limits
from tests.brokers.models import with_room

JAVA = ("java", "-Xmx192m", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1")
JAVA_OPENS = tuple(
    f"--add-opens=java.base/{each}=ALL-UNNAMED" for each in ("java.lang", "java.nio", "sun.nio.ch")
)
PERSISTENCE = "session_restart"
NO_RULES = "it has no access rules for topics"
RULES = ("denied_publish", "denied_subscribe")
IGNORES_RETAIN_AS_PUBLISHED = (
    "it does not keep Retain As Published, so what was retained while a sensor listened is newer "
    "for the gateway than what it knows as retained, and that sensor hears it once more when "
    "another one subscribes"
)
LOSES_QOS_2 = "it acknowledges a message of QoS 2 and does not pass it on"


class Mosquitto(Broker):
    name = "mosquitto"
    title = "mosquitto"
    version = mosquitto_version()
    recipe = Recipe("present", ("Debian's mosquitto",))

    def command(self) -> list[str]:
        rules = self.folder / "rules.json"
        if not rules.exists():
            rules.write_text(_dynamic_security(self.settings.denied), encoding="utf-8")
            rules.chmod(0o600)
        program, plugin = self.program_and_plugin()
        lines = [
            f"listener {self.port} 127.0.0.1",
            "allow_anonymous true",
            f"max_inflight_messages {self.settings.receive_maximum}",
            f"max_packet_size {self.settings.packet_bytes_max}",
            f"persistence {str(self.settings.is_persistent).lower()}",
            f"persistence_location {self.folder}/",
            f"plugin {plugin}",
            f"plugin_opt_config_file {rules}",
        ]
        if os.geteuid() == 0:
            lines.append("user root")
        config = self.folder / "mosquitto.conf"
        config.write_text("\n".join([*lines, ""]), encoding="utf-8")
        return [program, "-c", str(config)]

    def program_and_plugin(self) -> tuple[str, Path]:
        """The broker, and the plugin with its access rules."""
        return find_mosquitto(), next(Path("/usr/lib").glob("*/mosquitto_dynamic_security.so"))


class NewestMosquitto(Mosquitto):
    """Built from the source that Debian's unstable has of it."""

    name = "mosquitto-newest"
    title = "mosquitto, newest"
    version = "2.1.2"
    recipe = Recipe(
        "cmake",
        (
            "pool/main/m/mosquitto/mosquitto_2.1.2.orig.tar.gz",
            "sha256=a8e37cc4c1d4141e56c5a8729c5fa36b1f0b1ca95378a12131d68f0509de122a",
            "libcjson1",
            "libcjson-dev",
        ),
        needs=("cmake", "cc", "c++"),
    )

    def program_and_plugin(self) -> tuple[str, Path]:
        build = self.home() / "build"
        plugin = build / "plugins" / "dynamic-security" / "mosquitto_dynamic_security.so"
        return str(build / "src" / "mosquitto"), plugin


def _dynamic_security(denied: str) -> str:
    pattern = f"{denied}/#"
    acls = [
        {"acltype": kind, "topic": pattern, "priority": 1, "allow": False}
        for kind in ("publishClientSend", "subscribePattern")
    ]
    return json.dumps({
        "defaultACLAccess": {
            "publishClientSend": True, "publishClientReceive": True,
            "subscribe": True, "unsubscribe": True,
        },
        "anonymousGroup": "all",
        "clients": [],
        "groups": [{"groupname": "all", "roles": [{"rolename": "some"}], "clients": []}],
        "roles": [{"rolename": "some", "acls": acls}],
    })  # fmt: skip


class Mochi(Broker):
    name = "mochi"
    title = "Mochi MQTT"
    version = "2.7.9"
    recipe = Recipe("go", ("github.com/mochi-mqtt/server/v2/cmd/docker@v2.7.9",))
    deviations: ClassVar[Mapping[str, str]] = {
        PERSISTENCE: "it saves what waits for a session without its packet id, and after a restart "
        "ends each connection of that session (resend inflight: missing packet id)",
    }

    def command(self) -> list[str]:
        config = {
            "listeners": [{"type": "tcp", "id": "t", "address": f"127.0.0.1:{self.port}"}],
            "hooks": {
                "auth": {
                    "allow_all": False,
                    "ledger": {
                        "auth": [{"remote": "*", "allow": True}],
                        "acl": [{"remote": "*", "filters": {f"{self.settings.denied}/#": 0}}],
                    },
                },
            },
            # Without one of these it is 0, and not what it is by default.
            "options": {
                "capabilities": {
                    "maximum_clients": 1000,
                    "maximum_message_expiry_interval": 86400,
                    "maximum_client_writes_pending": 8192,
                    "maximum_session_expiry_interval": 4294967295,
                    "maximum_packet_size": self.settings.packet_bytes_max,
                    "receive_maximum": self.settings.receive_maximum,
                    "maximum_inflight": 8192,
                    "topic_alias_maximum": 65535,
                    "shared_sub_available": 1,
                    "minimum_protocol_version": 3,
                    "maximum_qos": 2,
                    "retain_available": 1,
                    "wildcard_sub_available": 1,
                    "sub_id_available": 1,
                },
            },
        }
        if self.settings.is_persistent:
            storage = {"bolt": {"path": str(self.folder / "bolt.db"), "bucket": "mochi"}}
            config["hooks"] |= {"storage": storage}  # type: ignore[operator]
        path = self.folder / "config.json"
        path.write_text(json.dumps(config), encoding="utf-8")
        return [str(self.home() / "docker"), "--config", str(path)]


class Artemis(Broker):
    name = "artemis"
    title = "ActiveMQ Artemis"
    version = "2.40.0"
    recipe = Recipe("maven", ("ArtemisBroker", "org.apache.activemq:artemis-mqtt-protocol:2.40.0"))

    def command(self) -> list[str]:
        wanted = self.settings
        return [
            *JAVA, "-cp", _class_path(self.home()), "ArtemisBroker", str(self.port),
            str(self.folder), str(wanted.receive_maximum), str(wanted.packet_bytes_max),
            wanted.denied, str(wanted.is_persistent).lower(),
        ]  # fmt: skip


class HiveMq(Broker):
    name = "hivemq"
    title = "HiveMQ CE"
    version = "2025.5"
    recipe = Recipe(
        "maven", ("HivemqBroker", "com.hivemq:hivemq-community-edition-embedded:2025.5")
    )

    def command(self) -> list[str]:
        for name in ("conf", "data", "extensions"):
            (self.folder / name).mkdir(exist_ok=True)
        wanted = self.settings
        mode = "file" if wanted.is_persistent else "in-memory"
        (self.folder / "conf" / "config.xml").write_text(
            f"""<?xml version="1.0"?>
<hivemq>
  <listeners><tcp-listener>
    <port>{self.port}</port><bind-address>127.0.0.1</bind-address>
  </tcp-listener></listeners>
  <mqtt>
    <receive-maximum>
      <server-receive-maximum>{wanted.receive_maximum}</server-receive-maximum>
    </receive-maximum>
    <packets><max-packet-size>{wanted.packet_bytes_max}</max-packet-size></packets>
  </mqtt>
  <persistence><mode>{mode}</mode></persistence>
  <anonymous-usage-statistics><enabled>false</enabled></anonymous-usage-statistics>
</hivemq>
""",
            encoding="utf-8",
        )
        return [
            *JAVA, *JAVA_OPENS, "-cp", _class_path(self.home()), "HivemqBroker",
            str(self.folder), wanted.denied,
        ]  # fmt: skip


class Moquette(Broker):
    name = "moquette"
    title = "Moquette"
    version = "0.17"
    speaks_mqtt_5 = False  # 0.18 does
    recipe = Recipe("maven", ("MoquetteBroker", "io.moquette:moquette-broker:0.17"))

    def command(self) -> list[str]:
        wanted = self.settings
        return [
            *JAVA, "-cp", _class_path(self.home()), "MoquetteBroker", str(self.port),
            str(self.folder), str(wanted.packet_bytes_max), wanted.denied,
            str(wanted.is_persistent).lower(),
        ]  # fmt: skip


class Rumqttd(Broker):
    """As the wheel of iotcore has it: rumqttd with a few lines of Python around it."""

    name = "iotcore"
    title = "rumqttd (iotcore)"
    version = "0.4.0"
    recipe = Recipe("pip", ("iotcore==0.4.0",))
    lacks: ClassVar[Mapping[str, str]] = dict.fromkeys(RULES, NO_RULES) | {
        PERSISTENCE: "it keeps sessions in memory only",
    }
    deviations: ClassVar[Mapping[str, str]] = {"retained": IGNORES_RETAIN_AS_PUBLISHED}

    def command(self) -> list[str]:
        config = self.folder / "rumqttd.toml"
        config.write_text(
            f"""id = 0
[router]
max_connections = 100
max_outgoing_packet_count = 200
max_segment_size = 104857600
max_segment_count = 10
[v5.1]
name = "v5"
listen = "127.0.0.1:{self.port}"
next_connection_delay_ms = 1
[v5.1.connections]
connection_timeout_ms = 60000
max_payload_size = {self.settings.packet_bytes_max}
max_inflight_count = {self.settings.receive_maximum}
dynamic_filters = true
""",
            encoding="utf-8",
        )
        program = (
            "import sys; from iotcore.iotcore import IotCoreBroker; "
            "IotCoreBroker(config_path=sys.argv[1]).run_forever()"
        )
        return [str(self.home() / "bin" / "python"), "-c", program, str(config)]


class MoatMqtt(Broker):
    name = "moat-lib-mqtt"
    title = "MoaT-MQTT"
    version = "0.8.7"
    recipe = Recipe("pip", ("moat-lib-mqtt==0.8.7",))
    lacks: ClassVar[Mapping[str, str]] = {
        PERSISTENCE: "it keeps no sessions",
        "session_kept": "it keeps no sessions",
        **dict.fromkeys(RULES, "its access rules are Python code"),
    }
    deviations: ClassVar[Mapping[str, str]] = {
        "up_qos_2": LOSES_QOS_2,
        "restart": LOSES_QOS_2,
        "killed": LOSES_QOS_2,
    }

    def command(self) -> list[str]:
        program = (
            "import sys, anyio; from moat.lib.mqtt.async_broker import AsyncMQTTBroker; "
            "anyio.run(AsyncMQTTBroker(('127.0.0.1', int(sys.argv[1]))).serve)"
        )
        return [str(self.home() / "bin" / "python"), "-c", program, str(self.port)]


class Rmqtt(Broker):
    """Its access rules end the connection on a forbidden PUBLISH, which is its default."""

    name = "rmqttd"
    title = "RMQTT"
    version = "0.24.0"
    recipe = Recipe("cargo", ("rmqttd@0.24.0",), needs=("protoc",))
    lacks: ClassVar[Mapping[str, str]] = {
        PERSISTENCE: "after a stop in order the session is there again, and the messages that "
        "waited for it only at times (rmqtt-session-storage with sled)",
    }

    def command(self) -> list[str]:
        wanted = self.settings
        plugins = self.folder / "plugins"
        plugins.mkdir(exist_ok=True)
        rules = f'[["deny", "all", "pubsub", ["{wanted.denied}/#"]], ["allow", "all"]]'
        (plugins / "rmqtt-acl.toml").write_text(f"rules = {rules}\n", encoding="utf-8")
        (plugins / "rmqtt-retainer.toml").write_text('storage.type = "ram"\n', encoding="utf-8")
        started = ["rmqtt-acl", "rmqtt-retainer"]
        if wanted.is_persistent:
            started.append("rmqtt-session-storage")
            (plugins / "rmqtt-session-storage.toml").write_text(
                f"""storage.type = "sled"
storage.sled.path = "{self.folder}/sessions"
storage.sled.cache_capacity = "16M"
""",
                encoding="utf-8",
            )
        config = self.folder / "rmqtt.toml"
        config.write_text(
            f"""[plugins]
dir = "{plugins}/"
default_startups = {json.dumps(started)}
disabled_default_startups = ["rmqtt-counter", "rmqtt-http-api"]
[rpc]
server_addr = "127.0.0.1:0"
[log]
to = "console"
level = "info"
[listener.tcp.external]
addr = "127.0.0.1:{self.port}"
max_packet_size = "{wanted.packet_bytes_max}B"
max_inflight = {wanted.receive_maximum}
max_session_expiry_interval = "0s"
""",
            encoding="utf-8",
        )
        return [str(self.home() / "bin" / "rmqttd"), "-f", str(config)]


class Ejabberd(Broker):
    name = "ejabberd"
    title = "ejabberd"
    version = "23.01-1"
    recipe = Recipe("deb", ("ejabberd=23.01-1",))
    credentials = ("gateway@localhost", "secret")
    keys: ClassVar[Mapping[str, str]] = {
        'upstream.username = "NAME@HOST"': "it refuses every CONNECT without",
        'upstream.password_file = "..."': "likewise",
    }
    lacks: ClassVar[Mapping[str, str]] = {PERSISTENCE: "it keeps sessions in memory only"}

    def command(self) -> list[str]:
        config = self.folder / "ejabberd.yml"
        config.write_text(
            f"""hosts: [localhost]
loglevel: info
auth_method: [anonymous]
anonymous_protocol: login_anon
allow_multiple_connections: true
listen:
  - port: {self.port}
    ip: "127.0.0.1"
    module: mod_mqtt
    max_payload_size: {self.settings.packet_bytes_max}
modules:
  mod_mqtt:
    session_expiry: 7 days
    access_publish:
      "{SITE}/#": [allow: all]
      "tidegate/#": [allow: all]
    access_subscribe:
      "{SITE}/#": [allow: all]
      "tidegate/#": [allow: all]
""",
            encoding="utf-8",
        )
        libraries = next((self.home() / "root" / "usr" / "lib").glob("*-linux-*"))
        erlang = self.home() / "root" / "usr" / "lib" / "erlang"
        binaries = next(erlang.glob("erts-*")) / "bin"
        variables = {
            "ROOTDIR": erlang, "BINDIR": binaries, "EMU": "beam", "PROGNAME": "erl",
            "ERL_LIBS": libraries, "LD_LIBRARY_PATH": libraries, "HOME": self.folder,
            "EJABBERD_CONFIG_PATH": config, "EJABBERD_LOG_PATH": self.folder / "ejabberd.log",
        }  # fmt: skip
        return [
            "env", *(f"{name}={value}" for name, value in variables.items()),
            str(binaries / "erlexec"), "-noinput", "+sbwt", "none",
            "-mnesia", "dir", f'"{self.folder / "mnesia"}"', "-s", "ejabberd",
        ]  # fmt: skip


class Aedes(Broker):
    name = "aedes"
    title = "Aedes"
    version = "1.2.0"
    recipe = Recipe("npm", ("aedes@1.2.0",))
    speaks_mqtt_5 = False

    def command(self) -> list[str]:
        program = (
            "import { Aedes } from 'aedes'; import { createServer } from 'node:net'; "
            "const broker = await Aedes.createBroker(); "
            f"createServer(broker.handle).listen({self.port}, '127.0.0.1');"
        )
        path = self.folder / "broker.mjs"
        path.write_text(program, encoding="utf-8")
        modules = self.folder / "node_modules"
        if not modules.exists():
            modules.symlink_to(self.home() / "node_modules")
        return ["node", str(path)]


class Amqtt(Broker):
    name = "amqtt"
    title = "aMQTT"
    version = "0.12.1"
    recipe = Recipe("pip", ("amqtt==0.12.1",))
    speaks_mqtt_5 = False

    def command(self) -> list[str]:
        config = self.folder / "amqtt.yaml"
        config.write_text(
            f"""listeners:
  default:
    type: tcp
    bind: 127.0.0.1:{self.port}
plugins:
  amqtt.plugins.authentication.AnonymousAuthPlugin:
    allow_anonymous: true
""",
            encoding="utf-8",
        )
        return [str(self.home() / "bin" / "amqtt"), "-c", str(config)]


def _class_path(home: Path) -> str:
    return f"{home}/classes:{home}/jars/*"


class Model(Mosquitto):
    """A mosquitto without limits of its own, behind a proxy with those of `limits`."""

    recipe = Recipe("present", ("a proxy before mosquitto",))
    lacks: ClassVar[Mapping[str, str]] = {PERSISTENCE: "mosquitto's own column has it"}
    limits: ClassVar[Limits]

    def __init__(self, folder: Path, settings: Settings | None = None) -> None:
        super().__init__(folder, with_room(settings or Settings(), self.limits))


class AwsIotCore(Model):
    name = "aws-iot-core"
    title = "AWS IoT Core (model)"
    version = "2024"
    keys: ClassVar[Mapping[str, str]] = {
        "upstream.filters_per_subscribe_max = 8": "a SUBSCRIBE with more ends the connection",
    }
    limits = Limits(
        filters_per_subscribe_max=8,
        packet_bytes_max=149_504,  # 128 KiB of payload, and its properties
        receive_maximum=100,
        qos_max=1,
        keep_alive_s_max=1200,
        session_expiry_s_max=3600,
        topic_slashes_max=7,
        topic_bytes_max=256,
        identifiers_available=False,
        topic_alias_max=8,
        denied_publish=Denial.CLOSE,
    )


class AzureEventGrid(Model):
    name = "azure-event-grid"
    title = "Azure Event Grid (model)"
    version = "2024"
    keys: ClassVar[Mapping[str, str]] = {
        "upstream.filters_per_subscribe_max = 10": "a SUBSCRIBE with more ends the connection",
    }
    lacks: ClassVar[Mapping[str, str]] = {
        **Model.lacks,
        "retained": "it keeps no retained messages",
    }
    limits = Limits(
        filters_per_subscribe_max=10,
        packet_bytes_max=512 * 1024,
        receive_maximum=100,
        qos_max=1,
        keep_alive_s_max=1160,
        session_expiry_s_max=8 * 3600,
        topic_slashes_max=7,
        topic_bytes_max=256,
        retain_available=False,
        identifiers_available=False,
        shared_available=False,
        topic_alias_max=10,
    )


class HiveMqCloud(Model):
    name = "hivemq-cloud"
    title = "HiveMQ Cloud (model)"
    version = "2024"
    limits = Limits(
        packet_bytes_max=5 * 1024 * 1024,
        receive_maximum=10,
        session_expiry_s_max=3 * 24 * 3600,
        topic_alias_max=5,
    )


class Emqx(Model):
    name = "emqx"
    title = "EMQX, deny_action = disconnect (model)"
    version = "5"
    limits = Limits(
        packet_bytes_max=1 << 20,
        receive_maximum=32,
        topic_alias_max=65535,
        denied_publish=Denial.DISCONNECT,
        denied_subscribe=Denial.DISCONNECT,
    )


REAL: tuple[type[Broker], ...] = (
    Mosquitto, NewestMosquitto, Mochi, Artemis, HiveMq, Rumqttd, Rmqtt, Ejabberd, MoatMqtt,
    Moquette, Aedes, Amqtt,
)  # fmt: skip
MODELS: tuple[type[Model], ...] = (AwsIotCore, AzureEventGrid, HiveMqCloud, Emqx)
BROKERS: tuple[type[Broker], ...] = (*REAL, *MODELS)
# What `make test` has as well: nothing is downloaded for them.
PRESENT = tuple(each for each in BROKERS if each.recipe.kind == "present")

# What was looked for and is not in the table, and why.
NOT_HAD: dict[str, str] = {
    "EMQX": "its packages are in a registry of its makers' own; a model stands for it",
    "HiveMQ Cloud, AWS IoT Core, Azure Event Grid": "rented, not installed; models stand for them",
    "VerneMQ": "packages of its makers' own only, or built from Erlang sources",
    "NanoMQ": "packages of its makers' own only",
    "FlashMQ": "packages of its makers' own only",
    "BifroMQ": "org.apache.bifromq and com.baidu.bifromq are not served by Maven Central here",
    "Moquette 0.18": "the first that speaks MQTT 5; not served by Maven Central here, 0.17 is",
    "RabbitMQ": "Debian 12 has 3.10, which speaks MQTT 3.1.1; MQTT 5 begins with 3.13",
    "comqtt, gmqtt, VolantMQ, hmq": "not served by the Go module proxy here",
    "mqttv5-cli 0.29.10": "a crate that it is locked to (webpki-roots) is not served here",
    "mosca": "MQTT 3.1.1 only, and its successor Aedes is in the table",
    "Solace PubSub+": "a container image only",
}
