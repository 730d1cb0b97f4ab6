"""`tidegate import`: files in the shapes that Paho's gateway and RSMB have, made into ours."""

from __future__ import annotations

import stat
import tomllib
from pathlib import Path
from typing import Any

import pytest

from gateway.app.exit_codes import ExitCode
from tests.cli.tidegate import tidegate_here

# The settings and their order are those of gateway.conf as that gateway brings it.
GATEWAY_CONF = """\
#**************************************************************************
# config file of MQTT-SN Gateway
#

GatewayID=1
GatewayName=PahoGateway-01
MaxNumberOfClients=30
KeepAlive=60
#LoginID=your_ID
#Password=your_Password

BrokerName=mqtt.example.org
BrokerPortNo=1883
BrokerSecurePortNo=8883

#RootCAfile=/etc/ssl/certs/ca-certificates.crt
#RootCApath=/etc/ssl/certs/
#CertsKey=/path/to/certKey.pem
#PrivateKey=/path/to/privateKey.pem

AggregatingGateway=NO
QoS-1=NO
Forwarder=NO
PredefinedTopic=NO
ClientAuthentication=NO

ClientsList=/path/to/your_clients.conf
PredefinedTopicList=/path/to/your_predefinedTopic.conf

GatewayPortNo=10000
MulticastPortNo=1883
MulticastIP=225.1.1.1
MulticastTTL=1

GatewayIPv6PortNo=10000
MulticastIPv6PortNo=1883
MulticastIPv6=ff1e:feed:caca:dead::1
MulticastIPv6If=wlp4s0
MulticastHops=1

DtlsCertsKey=/etc/ssl/certs/gateway.pem
DtlsPrivKey=/etc/ssl/private/privkey.pem

Baudrate=38400
SerialDevice=/dev/ttyUSB0
ApiMode=2

BaudrateLoRaLink=115200
DeviceRxLoRaLink=/dev/loralinkRx
DeviceTxLoRaLink=/dev/loralinkTx

RFCOMMAddress=60:57:18:06:8B:72.*

ShearedMemory=NO

"""
TOPICS = """\
#     ClientID, TopicName, TopicID

*,farm/boot, 1
tank,farm/tank level, 2
tank,farm/tank/door, 3

QoS-1_Client03,farm/rain, 4
"""
CLIENTS = """\
#     ClientId, SensorNetAddress, "unstableLine", "secureConnection"
tank, 172.16.1.11:20020
ClientPUB,172.16.1.11:2010,unstableLine
QoS-1_Client03,172.16.1.11:20003,QoS-1

Forwarder01,172.16.1.12:22002,forwarder
"""


def with_(text: str, **values: str) -> str:
    for name, value in values.items():
        name = name.replace("_", "-")
        lines = [line for line in text.splitlines() if not line.lstrip("#").startswith(f"{name}=")]
        text = "\n".join([*lines, f"{name}={value}", ""])
    return text


def conf(folder: Path, text: str, **values: str) -> Path:
    path = folder / "gateway.conf"
    path.write_text(with_(text, **values))
    (folder / "predefinedTopic.conf").write_text(TOPICS)
    (folder / "clients.conf").write_text(CLIENTS)
    return path


def imported(
    folder: Path, path: Path, *more: str, code: int = ExitCode.OK, program: str = "paho"
) -> tuple[Any, str]:
    """The file, which `tidegate check` accepts, and what was said on stderr."""
    done = tidegate_here("import", program, path, *more, folder=folder)
    assert done.returncode == code, done.stderr
    made = folder / "made.toml"
    made.write_text(done.stdout)
    checked = tidegate_here("check", made, folder=folder)
    assert checked.returncode == ExitCode.OK, checked.stderr
    return tomllib.loads(done.stdout), done.stderr


def test_the_file_as_it_comes_is_taken_over(tmp_path: Path) -> None:
    found, said = imported(tmp_path, conf(tmp_path, GATEWAY_CONF))
    assert found == {
        "gateway": {"id": 1, "name": "PahoGateway-01"},
        "udp": [{"listen": "0.0.0.0:10000", "multicast": "225.1.1.1:1883", "multicast_hops": 1}],
        "discovery": {"advertise_s": 60},
        "upstream": {"url": "mqtt://mqtt.example.org:1883"},
        "qos_minus_one": {"allow": False},
        "forwarders": {"allow": False},
        "limits": {"clients_max": 30},
    }
    for name in ("BrokerSecurePortNo", "AggregatingGateway", "ClientsList", "PredefinedTopicList"):
        assert f": {name}: " in said
    for name in ("DtlsCertsKey", "ApiMode", "RFCOMMAddress", "ShearedMemory", "MulticastHops"):
        assert f": {name}: " in said


def test_the_other_network_is_taken_when_it_is_asked_for(tmp_path: Path) -> None:
    found, said = imported(tmp_path, conf(tmp_path, GATEWAY_CONF), "--network", "udp6")
    assert found["udp"] == [
        {
            "listen": "[::]:10000",
            "multicast": "[ff1e:feed:caca:dead::1]:1883",
            "multicast_interface": "wlp4s0",
            "multicast_hops": 1,
        }
    ]
    assert "MulticastTTL" in said


def test_topics_clients_and_forwarders_are_those_of_the_lists(tmp_path: Path) -> None:
    path = conf(
        tmp_path,
        GATEWAY_CONF,
        QoS_1="YES",
        Forwarder="YES",
        PredefinedTopic="YES",
        ClientAuthentication="YES",
        ClientsList="clients.conf",
        PredefinedTopicList="predefinedTopic.conf",
    )
    found, said = imported(tmp_path, path)
    # A client of QoS -1 has no id on the air: its topics are those of all.
    assert found["predefined_topics"] == {"farm/boot": 1, "farm/rain": 4}
    # As that gateway does, blanks are left out.
    tank = {"farm/tanklevel": 2, "farm/tank/door": 3}
    assert found["clients"] == {"tank": {"predefined_topics": tank}}
    listed = ["tank", "ClientPUB", "QoS-1_Client03"]
    assert found["admission"] == {"permit": "listed", "listed": listed}
    assert found["forwarders"] == {"allow": True, "listed": ["172.16.1.12/32"]}
    assert found["qos_minus_one"] == {"allow": True}
    assert "clients.conf:2: addresses and unstableLine" in said


def test_lists_of_older_releases_are_read_too(tmp_path: Path) -> None:
    path = conf(
        tmp_path,
        GATEWAY_CONF,
        QoS_1="YES",
        Forwarder="YES",
        PredefinedTopic="YES",
        PredefinedTopicList="predefinedTopic.conf",
        QoS_1ClientsList="qos-1clients.conf",
        ForwardersList="forwarders.conf",
    )
    text = path.read_text().replace("ClientsList=/path/to/your_clients.conf", "")
    path.write_text(text)
    (tmp_path / "qos-1clients.conf").write_text("QoS-1_Client03,172.16.1.7:12002\n")
    (tmp_path / "forwarders.conf").write_text("Forwarder01,172.16.1.7:12002\n")
    found, _ = imported(tmp_path, path)
    assert found["predefined_topics"] == {"farm/boot": 1, "farm/rain": 4}
    assert found["forwarders"]["listed"] == ["172.16.1.7/32"]


def test_bad_lines_are_named_by_number_and_the_rest_is_taken(tmp_path: Path) -> None:
    path = conf(
        tmp_path,
        "half a line with hunter2\n" + GATEWAY_CONF,
        PredefinedTopic="YES",
        PredefinedTopicList="predefinedTopic.conf",
        GatewayID="300",
        BrokerPortNo="70000",
    )
    bad = ["*,a,1", "no commas hunter2", "*,a/+/b,2", "x,b,three", "x,c,70000", ",d,5", "x,e,1"]
    (tmp_path / "predefinedTopic.conf").write_text("\r\n".join([*bad, "x,f,6"]))
    found, said = imported(tmp_path, path, code=ExitCode.FAILURE)
    assert found["predefined_topics"] == {"a": 1}
    assert found["clients"] == {"x": {"predefined_topics": {"f": 6}}}
    assert "gateway.conf:1: expected NAME=VALUE" in said
    for number in range(2, 8):
        assert f"predefinedTopic.conf:{number}: " in said
    assert "GatewayID: expected a whole number from 0 to 255, got 300" in said
    assert "with a port from 1 to 65535" in said
    assert "hunter2" not in said


def test_tls_is_taken_with_its_files_if_a_client_has_it(tmp_path: Path) -> None:
    path = conf(
        tmp_path,
        GATEWAY_CONF,
        ClientAuthentication="YES",
        ClientsList="secure.conf",
        RootCApath="/etc/ssl/certs/",
        PrivateKey="missing.pem",
    )
    (tmp_path / "secure.conf").write_text("a,10.0.0.1:1,secureConnection\nb,10.0.0.1:2\n")
    found, said = imported(tmp_path, path, code=ExitCode.FAILURE)
    assert found["upstream"] == {"url": "mqtts://mqtt.example.org:8883"}
    assert "RootCApath: a folder of certificates" in said
    assert "PrivateKey: missing.pem is not there" in said
    assert "secure.conf:1: secureConnection of some clients" in said


def test_a_certificate_that_is_none_is_left_out(tmp_path: Path) -> None:
    path = conf(
        tmp_path,
        GATEWAY_CONF,
        ClientAuthentication="YES",
        ClientsList="secure.conf",
        RootCAfile="clients.conf",
    )
    (tmp_path / "secure.conf").write_text("a,10.0.0.1:1,secureConnection\n")
    found, said = imported(tmp_path, path, code=ExitCode.FAILURE)
    assert "ca_file" not in found["upstream"]
    assert "gateway.conf:" in said
    assert "RootCAfile: " in said


# Passwords and files


def test_a_password_is_never_shown_and_goes_into_a_file_of_its_own(tmp_path: Path) -> None:
    path = conf(tmp_path, GATEWAY_CONF, LoginID="barn", Password="hunter2 secret")
    found, said = imported(tmp_path, path)
    assert found["upstream"]["username"] == "barn"
    assert "password_file" not in found["upstream"]
    assert "the password is not shown" in said
    assert "hunter2" not in said + str(found)

    made = tmp_path / "new.toml"
    done = tidegate_here("import", "paho", path, "--output", made, folder=tmp_path)
    assert done.returncode == ExitCode.OK
    assert "hunter2" not in done.stdout + done.stderr + made.read_text()
    password = tmp_path / "new.upstream.password"
    assert password.read_text() == "hunter2 secret\n"
    for each in (made, password):
        assert stat.S_IMODE(each.stat().st_mode) == 0o600
    assert tomllib.loads(made.read_text())["upstream"]["password_file"] == password.name
    assert tidegate_here("check", made, folder=tmp_path).returncode == ExitCode.OK


@pytest.mark.parametrize("name", ["new.toml", "new.upstream.password"])
def test_nothing_is_replaced_and_nothing_is_half_done(tmp_path: Path, name: str) -> None:
    path = conf(tmp_path, GATEWAY_CONF, LoginID="barn", Password="hunter2")
    (tmp_path / name).write_text("mine")
    before = sorted(tmp_path.iterdir())
    done = tidegate_here("import", "paho", path, "-o", tmp_path / "new.toml", folder=tmp_path)
    assert done.returncode == ExitCode.CANNOT_CREATE
    assert "is there already" in done.stderr
    assert (tmp_path / name).read_text() == "mine"
    assert sorted(tmp_path.iterdir()) == before


def test_a_password_without_a_user_is_said(tmp_path: Path) -> None:
    path = conf(tmp_path, GATEWAY_CONF, Password="hunter2")
    _, said = imported(tmp_path, path, code=ExitCode.FAILURE)
    assert "there is no LoginID beside it" in said


def test_paths_begin_at_the_file_or_where_it_is_called(tmp_path: Path) -> None:
    there = tmp_path / "paho"
    there.mkdir()
    path = conf(there, GATEWAY_CONF, PredefinedTopic="YES", PredefinedTopicList="t.conf")
    (there / "t.conf").write_text("*,beside,1\n")
    (tmp_path / "t.conf").write_text("*,called,1\n")
    assert imported(tmp_path, path)[0]["predefined_topics"] == {"beside": 1}
    (there / "t.conf").unlink()
    assert imported(tmp_path, path)[0]["predefined_topics"] == {"called": 1}


def test_a_file_that_is_not_there_is_a_failure(tmp_path: Path) -> None:
    done = tidegate_here("import", "paho", tmp_path / "missing.conf", folder=tmp_path)
    assert done.returncode == ExitCode.FAILURE
    assert "missing.conf cannot be read: No such file or directory" in done.stderr
    assert tidegate_here("import", folder=tmp_path).returncode == ExitCode.USAGE


@pytest.mark.parametrize(
    "text", [b"\xff\xfe\x00", b"=\n==\nGatewayName=\n", b"GatewayName=\x1b[31m\nUnknown\x1b=1\n"]
)
def test_whatever_is_in_it_it_says_so_and_is_safe_for_a_terminal(
    tmp_path: Path, text: bytes
) -> None:
    path = tmp_path / "gateway.conf"
    path.write_bytes(text)
    done = tidegate_here("import", "paho", path, folder=tmp_path)
    assert done.returncode in (ExitCode.OK, ExitCode.FAILURE)
    assert "\x1b" not in done.stdout + done.stderr


def test_a_long_client_id_is_left_out_with_its_topics(tmp_path: Path) -> None:
    path = conf(tmp_path, GATEWAY_CONF, PredefinedTopic="YES", PredefinedTopicList="t.conf")
    (tmp_path / "t.conf").write_text(f"{'x' * 100},t,1\ny,t,2\n")
    found, said = imported(tmp_path, path, code=ExitCode.FAILURE)
    assert found["clients"] == {"y": {"predefined_topics": {"t": 2}}}
    assert "t.conf:1: " in said


# The Really Small Message Broker

BROKER_CFG = """\
# add some debug output
trace_output protocol
max_queued_messages 200
retry_interval 15
password_file users
predefined_topics_file topics.cfg

# listen for MQTT-SN traffic on UDP port 1885
listener 1885 INADDR_ANY mqtts
  mount_point "site 7/"
  multicast_groups 225.0.18.83
  advertise 225.0.18.83:1885 900 3

# listen to MQTT connections on tcp port 1886
listener 1886 INADDR_ANY
  ipv6 true

connection cloud
  addresses 10.0.0.9:1884 10.0.0.10
  username barn
  password hunter2
  topic # both

connection second
  address 10.0.0.11
"""


def test_rsmb_s_listener_topics_and_bridge_are_taken_over(tmp_path: Path) -> None:
    path = tmp_path / "broker.cfg"
    path.write_text(BROKER_CFG)
    (tmp_path / "topics.cfg").write_text("# ids\n1 farm/boot\n2 farm/tank level\nclientId x\n")
    found, said = imported(tmp_path, path, program="rsmb")
    assert found == {
        "gateway": {"id": 3},
        "udp": [{"listen": "0.0.0.0:1885", "multicast": "225.0.18.83:1885"}],
        "discovery": {"advertise_s": 900},
        "upstream": {
            "topic_prefix": "site 7/", "url": "mqtt://10.0.0.9:1884", "username": "barn",
        },
        "predefined_topics": {"farm/boot": 1, "farm/tank level": 2},
        "mqtt_sn": {"retry_after_s": 15},
        "limits": {"outbox_messages_max": 200},
    }  # fmt: skip
    for text in (
        "broker.cfg:2: trace_output",
        "broker.cfg:5: password_file: of the broker",
        "broker.cfg:12: advertise: a listener has one",
        "broker.cfg:15: listener 1886: of the broker",
        "broker.cfg:19: addresses: only the first broker",
        "broker.cfg:24: connection second: there is one",
        "topics.cfg:4: clientId",
    ):
        assert text in said
    assert "hunter2" not in said


def test_rsmb_s_password_goes_into_a_file_too_and_bad_lines_are_named(tmp_path: Path) -> None:
    path = tmp_path / "broker.cfg"
    path.write_text(f"{BROKER_CFG}retry_interval\n")
    (tmp_path / "topics.cfg").write_text("1 a\nx b\n1 c\n3 a/#\n70000 d\n4\n")
    made = tmp_path / "made.toml"
    done = tidegate_here("import", "rsmb", path, "-o", made, folder=tmp_path)
    assert done.returncode == ExitCode.FAILURE
    assert (tmp_path / "made.upstream.password").read_text() == "hunter2\n"
    for number in range(2, 7):
        assert f"topics.cfg:{number}: " in done.stderr
    assert "broker.cfg:26: retry_interval: there is no value" in done.stderr
    assert tidegate_here("check", made, folder=tmp_path).returncode == ExitCode.OK


def test_rsmb_without_a_bridge_or_a_listener_says_so(tmp_path: Path) -> None:
    path = tmp_path / "broker.cfg"
    path.write_text("listener 1883\n")
    found, said = imported(tmp_path, path, code=ExitCode.FAILURE, program="rsmb")
    assert found == {}
    assert "there is no listener of MQTT-SN" in said
    assert "no connection to a broker" in said
    path.write_text("listener 1885 INADDR_ANY mqtts\nipv6 true\n")
    found, said = imported(tmp_path, path, program="rsmb")
    assert found == {"udp": [{"listen": "[::]:1885"}]}
