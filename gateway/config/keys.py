"""The table of keys: what a configuration may say, what each key means, why its default is so.

The defaults themselves are those of `settings.py`. Meanings and reasons are ASCII, without a full
stop, because they become comments of a file and cells of a table.
"""

from dataclasses import replace

from gateway.config import settings
from gateway.config.addresses import Broker, BrokerUrl, Group, Listen, NetworkInterface, Networks
from gateway.config.admin_keys import ACCOUNTS_MAX, ADMIN, ADMIN_TOKEN, ADMIN_USER
from gateway.config.credential import CredentialPath
from gateway.config.dtls_keys import DTLS, SECURITY_OF_UDP
from gateway.config.kinds import (
    GIB,
    TEXT_BYTES_MAX,
    Boolean,
    Choice,
    CommandClass,
    CommandName,
    DeviceClass,
    FilePath,
    Fingerprint,
    Icon,
    Integer,
    Number,
    Size,
    Text,
    Texts,
    TopicFilter,
)
from gateway.config.schema import Key, Named, Repeated, Table
from gateway.config.security_keys import (
    ACCESS,
    ACCESS_RULES_MAX,
    ADMISSION,
    BINDING,
    BINDINGS_MAX,
    CLIENT_ID,
    LISTED_MAX,
    PAYLOAD_BYTES_MAX,
    PROTECTION,
    SECURITY,
    SERIAL_SECURITY,
    TOPIC_BYTES_MAX,
    TOPIC_PREFIX_BYTES_MAX,
)
from gateway.config.serial_ports import SerialPort
from gateway.config.settings import KIB, MIB, NAME_LENGTH_MAX, NOWHERE

LISTENERS_MAX = 16
LINES_MAX = 32
# Named in the file one by one, and looked through for each new topic.
TOPIC_FILTERS_MAX = 256
FORWARDERS_MAX = 256
NETWORKS_MAX = 256
FINGERPRINTS_MAX = 8  # one that is in use, and those that come next
ALPN_MAX = 8
# Eight of the smallest segments, 64 KiB: two in use, the spare, and room for a backlog.
JOURNAL_BYTES_MIN = 512 * KIB
PATTERNS_MAX = 64  # of client ids, that a client is compared with
VALUES_MAX = 256  # of Home Assistant, and devices, named in the file one by one
DISCOVERY_PREFIX_BYTES_MAX = 128
# What a topic filter may have beside the filter itself.
PER_TOPIC = (
    "acknowledge",
    "message_expiry_s",
    "deliver_within_s",
    "coalesce_retained",
    "qos0",
    "qos0_offline",
    "keep_until_ingested",
)

ENUM_OPTIONS_MAX = 64
STATE_CLASSES = ("measurement", "measurement_angle", "total", "total_increasing")
ENTITY_CATEGORIES = ("none", "diagnostic")
COMMAND_KINDS = ("number", "switch", "button", "select", "text", "light")
COMMAND_CATEGORIES = ("none", "config", "diagnostic")
COMMAND_MODES = ("auto", "box", "slider", "text", "password")
COMMANDS_MAX = 256
COMMAND_NUMBER = Number(-1e12, 1e12)

# fmt: off
GATEWAY = Table("gateway", "This gateway", settings=settings.GatewaySettings, parts=(
    Key("id", Integer(0, 255), "GwId, by which sensors know this gateway when they search for one",
        "one gateway in a place"),
    Key("name", Text(1, NAME_LENGTH_MAX, forbidden="+#/", characters=True),
        "Name in topics, in delivery tags and in the MQTT client id; two gateways of one broker "
        "need two names",
        "the name that the machine has already", default="the host name", example='"greenhouse"'),
    Key("state_dir", FilePath(), "Folder for what must survive a restart",
        "systemd's StateDirectory"),
    Key("scheduling", Choice(("auto", "batch", "inherited")),
        "How the system shares its processors out: as a batch process the gateway displaces nobody "
        "when it wakes up, so a broker on the same processor finishes what it has in hand; auto: "
        "while it is busy; inherited leaves it as who starts the gateway has it",
        "measured: up to a third less CPU time for a message where both are busy"),
))

UDP = Table("udp", "Where sensors reach the gateway; repeat the table for more than one address",
            settings=settings.UdpSettings, parts=(
    Key("listen", Listen(optional=True, off=NOWHERE),
        'Address and port; "[::]:1883" for IPv6, port 0 for any free port; switched off if all '
        "sensors are on serial lines",
        "port 1883/udp is registered for MQTT-SN"),
    Key("receive_buffer_bytes", Size(4 * KIB, 256 * MIB),
        "Room for datagrams that wait for the gateway; the kernel's net.core.rmem_max caps it",
        "10,000 datagrams at once were received without loss"),
    Key("tick_ms_max", Number(0, 20),
        "Longest time for which datagrams are collected to be handled together, 0 for never",
        "measured: a quarter of the CPU time, or less, at sensor loads"),
    Key("busy_poll_ms_max", Number(0, 1),
        "Longest time without sleep while a datagram that came alone is not answered, 0 for never; "
        "with one processor it is 0",
        "a broker on the same machine answers sooner; measured: half the time until PUBACK"),
    Key("multicast", Group(),
        "Multicast group for [discovery], of the same IP version as listen; sensors search there "
        "for gateways, and this one advertises itself",
        "nothing is announced unless asked for", example='"225.1.1.1:1883"'),
    Key("multicast_interface", NetworkInterface(),
        "Network interface of the group, by its name or one of its addresses; without it that of "
        "listen, or for 0.0.0.0 and [::] the one that the routes say",
        example='"eth0"', needs="multicast"),
    Key("multicast_hops", Integer(0, 255),
        "How many networks far the group is spoken to, 0 for this machine only",
        "routers pass nothing on"),
    Key("networks", Networks(NETWORKS_MAX),
        "Networks and addresses from which datagrams are taken, of the same IP version as listen; "
        "those from elsewhere are dropped unread and counted; empty for all",
        "nothing is known of the site", example='["192.168.4.0/24"]'),
    SECURITY_OF_UDP,
))

SERIAL = Table(
    "serial", "Serial lines, each with a sensor, or with a radio bridge that speaks for many (see "
    "[forwarders]); repeat the table for more than one", settings=settings.SerialSettings, parts=(
    Key("port", SerialPort(),
        "Where the line is; a name in /dev/serial/by-id stays the same wherever it is plugged in, "
        "a port server on the network has a URL", default="must be given",
        example='"/dev/serial/by-id/usb-..."'),
    Key("baud", Integer(50, 4_000_000),
        "Bits a second; of no use with socket://, where the server knows it",
        "what boards and their consoles begin with"),
    Key("framing", Choice(("hdlc", "slip", "raw")),
        "How messages go over the line: RFC 1662 with a check of 16 bits, SLIP, or one behind the "
        "other without anything", "damage is noticed; the others are for devices that lack it"),
    Key("parity", Choice(("none", "even", "odd")), "A check bit in each byte",
        "boards have none"),
    Key("stop_bits", Integer(1, 2), "Bits between two bytes", "boards have one"),
    Key("rtscts", Boolean(), "Wait while the other end says so by RTS and CTS",
        "most boards have three wires"),
    Key("gap_ms", Number(5, 60_000),
        "Silence that ends a message, with framing raw",
        "more than USB adapters hold back"),
    Key("burst_bytes_max", Integer(0, 65_535),
        "How many bytes are sent at once before a pause, 0 for a whole message; for boards that "
        "have no room for a message", "most have", example="32", needs="frame_gap_ms"),
    Key("frame_gap_ms", Number(0, 10_000),
        "Pause after each message, or each burst, once it is on the line",
        "boards that read by interrupt need none", example="5"),
    Key("advertise", Boolean(),
        "Say ADVERTISE on the line when it opens, and each discovery.advertise_s",
        "a sensor on a line looks for its gateway as well, and it costs nobody radio time"),
    Key("security", Choice(SERIAL_SECURITY),
        "What a sensor must show on this line: nothing, or the key of a device in each packet "
        "(protected), see [protection]",
        "who is at the cable is at the gateway"),
))

DISCOVERY = Table(
    "discovery", "How sensors find this gateway, where [[udp]] has multicast and on serial lines; "
    "SEARCHGW that comes to the listening port or by a line is answered in any case",
    settings=settings.DiscoverySettings, parts=(
    Key("advertise_s", Integer(1, 65_535),
        "T_ADV, the time from one ADVERTISE to the next, which says so",
        "MQTT-SN 1.2, 7.2: more than 15 min; less finds a gateway sooner and costs radio time"),
    Key("missed_max", Integer(1, 10),
        "N_ADV, how many ADVERTISE of another gateway a standby must miss before it stands in",
        "MQTT-SN 1.2, 7.2: 2 to 3"),
    Key("answer", Choice(("unicast", "multicast")),
        "How a search by multicast is answered: to the one who asked, or to the group",
        "works where the network loses multicast, and wakes nobody else"),
    Key("standby", Boolean(),
        "Be silent as long as another gateway advertises itself, and stand in for it after; the "
        "standby should have the higher gateway.id",
        "most networks have one gateway"),
))

UPSTREAM = Table("upstream", "The MQTT 5 broker", settings=settings.UpstreamSettings, parts=(
    Key("url", BrokerUrl(), "Where the broker is; mqtts:// is TLS; without a port 1883, or 8883 "
        "for mqtts; a link-local address has its interface behind it, as [fe80::1%25eth0]",
        "a broker on this machine", fields=Broker._fields,
        example='"mqtts://broker.example.org:8883"'),
    Key("username", Text(1, TEXT_BYTES_MAX), "User name at the broker",
        example='"greenhouse"', at_once=True),
    Key("password_file", CredentialPath(), "File that holds the password and nothing else",
        example='"/etc/tidegate/upstream.password"', needs="username", at_once=True),
    Key("ca_file", CredentialPath(), "Certificates (PEM) to trust instead of the system's",
        example='"/etc/tidegate/ca.pem"', needs_tls=True, at_once=True),
    Key("cert_file", CredentialPath(), "Certificate (PEM) by which the broker knows this gateway",
        example='"/etc/tidegate/gateway.pem"', needs_tls=True, at_once=True),
    Key("key_file", CredentialPath(),
        "Private key (PEM) of cert_file, if it is not in the same file",
        example='"/etc/tidegate/gateway.key"', needs="cert_file", needs_tls=True, at_once=True),
    Key("tls_min", Choice(("1.2", "1.3")), "Oldest version of TLS",
        "managed brokers of today have 1.2, and some nothing newer", at_once=True),
    Key("fingerprints", Texts(FINGERPRINTS_MAX, Fingerprint(1, 128)),
        "SHA-256 of the broker's own certificate, one of these, as `openssl x509 -noout "
        "-fingerprint -sha256` says it; without ca_file the certificate need not be of an "
        "authority then, nor name the broker", "the authority is enough",
        example=f'["{"9f86" * 16}"]', at_once=True),
    Key("server_name", Text(1, 253), "Name that the broker is asked for (SNI) and that its "
        "certificate must have", default="the host of url",
        example='"broker.example.org"', at_once=True),
    Key("alpn", Texts(ALPN_MAX, Text(1, 255)), "Application protocols to offer (ALPN), the best "
        "first; AWS IoT on port 443 needs \"x-amzn-mqtt-ca\" or \"mqtt\"", "brokers need none",
        example='["mqtt"]', at_once=True),
    Key("client_id", Text(1, TEXT_BYTES_MAX), "MQTT client id; the broker keeps the session by it",
        default='"tidegate-" and gateway.name', example='"tidegate-greenhouse"'),
    Key("topic_prefix", Text(0, TOPIC_PREFIX_BYTES_MAX, forbidden="+#"),
        "Put before every topic at the broker, exactly as written, so it should end in a slash",
        "topics at the broker are those of the sensors", example='"site-7/"'),
    Key("trust", Choice(("connection", "session")),
        "What the broker remembers of a QoS 2 message over a lost connection: nothing for "
        "certain, or with session all that MQTT 5 promises",
        "mosquitto forgets when it is killed"),
    Key("keep_alive_s", Integer(1, 65_535), "Longest silence towards the broker",
        "a dead connection is noticed within a minute"),
    Key("session_expiry_s", Integer(1, 0xFFFF_FFFF),
        "How long the broker keeps the session without us; 4294967295 is for ever",
        "a week, so a long weekend without power loses nothing"),
    Key("filters_per_subscribe_max", Integer(1, 64),
        "Topic filters in one SUBSCRIBE or UNSUBSCRIBE; AWS IoT takes 8, Azure Event Grid 10",
        "what is too many is found out, at the cost of a few connections"),
    Key("will_delay_s", Integer(0, 86_400),
        "How long after a connection ended without DISCONNECT the broker waits before it says "
        "offline for the gateway; connected again by then, it says nothing; 0 is at once; at most "
        "session_expiry_s, as the broker waits no longer than it keeps the session",
        "a connection that was cut is made again within a second or a few"),
    Key("connect_timeout_s", Number(0.1, 300), "Longest wait for the broker to accept",
        "a mobile link answers within a few seconds"),
    Key("reconnect_delay_s_min", Number(0.01, 3600), "First wait before connecting again",
        "a broker that restarts is back in a second"),
    Key("reconnect_delay_s_max", Number(0.01, 3600), "Longest wait before connecting again",
        "a thousand gateways do not crush a broker that returns"),
    Key("waiting_messages_max", Integer(1, 10_000_000),
        "Readings that wait for the broker in memory; beyond, they wait in the journal only, and "
        "where acknowledge is upstream sensors receive congestion",
        "a day of one reading a second"),
    Key("waiting_bytes_max", Size(64 * KIB, 16 * GIB), "The same limit in bytes",
        "an eighth of a board of 512 MiB"),
))

ACKNOWLEDGE = Choice(("auto", "journal", "upstream"))
EXPIRY_S = Integer(0, 0xFFFF_FFFF)
QOS_0 = Choice(("forward", "store"))
QOS_0_OFFLINE = Choice(("drop", "store"))

JOURNAL = Table("journal", "Readings on disk: when one counts as safe, and how many may wait there",
                settings=settings.JournalSettings, parts=(
    Key("acknowledge", ACKNOWLEDGE,
        "Who must have a reading before its sensor is acknowledged: auto is the broker while it "
        "answers (spill_after_ms), else the journal, and for QoS 2 always the journal; "
        "journal is always the journal; upstream is always the broker, and nothing is written",
        "safe against a power cut, and no wear of the card while the broker answers"),
    Key("size_max", Size(JOURNAL_BYTES_MIN, 1024 * GIB),
        "Room on disk for readings that wait, in whole segments of 1 MiB and less",
        "three days without the broker at 10 readings a second of 100 bytes",
        fields=("size_max_bytes",)),
    Key("when_full", Choice(("reject", "drop_oldest")),
        "What gives way when the journal is full: the new reading, which then needs the broker, "
        "and without it its sensor receives congestion; or the oldest ones, which are counted",
        "a sensor that is told can try again"),
    Key("spill_after_ms", Number(1, 5000),
        "Time in which the broker acknowledges nothing until auto writes what waits to the "
        "journal; while it acknowledges others, a reading has ten times that",
        "a broker that is well needs less, also over a mobile link; a sensor waits 10 s"),
    Key("linger_ms", Number(0, 1000),
        "Time that the first reading to be written waits for others, 0 for none",
        "a write of eight costs the card no more than a write of one"),
    Key("message_expiry_s", EXPIRY_S,
        "How long a reading may wait for the broker before it is dropped, 0 for ever",
        "an old reading is still a reading"),
    Key("coalesce_retained", Boolean(),
        "Of retained readings that wait keep only the latest of each topic",
        "who reads the history wants all of them"),
    Key("qos0", QOS_0,
        "Readings of QoS 0 and -1 while the broker is there: forward passes them by the journal, "
        "store writes them first",
        "QoS 0 promises nothing, and most of it is wear"),
    Key("qos0_offline", QOS_0_OFFLINE,
        "Readings of QoS 0 and -1 while the broker is away: drop them, or store them until it "
        "returns",
        "QoS 0 promises nothing, and most of it is wear"),
    Key("keep_until_ingested", Boolean(),
        "Keep readings of QoS 1 and 2 here when the broker has taken them, until an ingest such as "
        "`python -m spark_ingest collect` says that it has them (docs/guarantees.md); with "
        "acknowledge as auto or journal, and the journal is written first",
        "it needs an ingest that says so, and wears the card"),
    Key("ingest_timeout_s", Integer(1, 86_400),
        "How far an ingest that is at work may be past a kept reading before it counts as lost by "
        "the broker and is sent again",
        "a collector that starts again takes less"),
))

TOPIC = Text(1, TOPIC_BYTES_MAX, forbidden="+#")
_AS_FOR_ALL = "as in [journal]"
TOPIC_SETTINGS = Table(
    "topic", "Another treatment of the readings and messages of some topics: the first filter that "
    "matches decides, and each has one or more of the other keys; repeat the table for more "
    "filters",
    settings=settings.TopicSettings, parts=(
    Key("filter", TopicFilter(TOPIC_BYTES_MAX),
        "The topics as sensors name them, without upstream.topic_prefix",
        default="must be given", example='"alarm/#"'),
    Key("acknowledge", ACKNOWLEDGE, "journal.acknowledge for these topics",
        default=_AS_FOR_ALL, example='"journal"'),
    Key("message_expiry_s", EXPIRY_S, "journal.message_expiry_s for these topics",
        default=_AS_FOR_ALL, example="86400"),
    Key("deliver_within_s", EXPIRY_S,
        "How long a message to sensors on these topics may wait before it is dropped, if its "
        "publisher gave it no Message Expiry Interval, 0 for ever",
        default="0", example="3600"),
    Key("coalesce_retained", Boolean(), "journal.coalesce_retained for these topics",
        default=_AS_FOR_ALL, example="true"),
    Key("qos0", QOS_0, "journal.qos0 for these topics", default=_AS_FOR_ALL, example='"store"'),
    Key("qos0_offline", QOS_0_OFFLINE, "journal.qos0_offline for these topics",
        default=_AS_FOR_ALL, example='"store"'),
    Key("keep_until_ingested", Boolean(), "journal.keep_until_ingested for these topics",
        default=_AS_FOR_ALL, example="true"),
))

TOPIC_ID = Key("topic", Integer(1, 65_534),
               "Id by which sensors may call the topic without registering it; no id and no topic "
               "twice", "0 and 65535 are reserved, MQTT-SN 1.2", example="1")

PREDEFINED_TOPICS = Named("predefined_topics", "Topics with ids that all sensors know beforehand",
                          TOPIC, TOPIC_ID, example="sensors/boot")
CLIENT = Table("client", "What is known beforehand about one sensor, by its client id",
               settings=settings.ClientSettings, parts=(
    Named("predefined_topics", "Topics with ids that only this sensor knows beforehand",
          TOPIC, replace(TOPIC_ID, example="2"), example="sensors/door"),
))
CLIENTS = Named("clients", "Single sensors, by client id", CLIENT_ID, CLIENT, example="sensor-7")

QOS_MINUS_ONE = Table("qos_minus_one", "Messages from sensors that never connect (QoS -1)",
                      settings=settings.QosMinusOneSettings, parts=(
    Key("allow", Boolean(), "Accept them; anybody who reaches the port can then publish",
        "nobody publishes unasked"),
    Key("long_topics", Boolean(), "Accept full topic names in them, as some clients send",
        "not in MQTT-SN 1.2"),
))

MQTT_SN = Table("mqtt_sn", "How the gateway speaks with sensors",
                settings=settings.MqttSnSettings, parts=(
    Key("retry_after_s", Number(0.05, 3600), "T_retry, the wait for an answer before sending again",
        "MQTT-SN 1.2, 7.2: 10 to 15 s"),
    Key("retry_count_max", Integer(0, 100), "N_retry, how often to send again",
        "MQTT-SN 1.2, 7.2: 3 to 5"),
    Key("empty_client_id", Choice(("reject", "assign")),
        "What a sensor gets that connects without a client id",
        "an assigned id cannot be told to the sensor in MQTT-SN 1.2"),
    Key("rebind_sleepers", Choice(("any", "same_host", "never")),
        "From where a sleeper may wake up by PINGREQ with its client id, if it is not where it "
        "was: from any address, from another port of its host, or only after a CONNECT",
        "behind a NAT the address changes while a sensor sleeps"),
    Key("client_id_bytes_max", Integer(1, 255), "Longest client id",
        "MQTT-SN 1.2 says 23, real sensors use more"),
    Key("allow_trailing_octets", Boolean(), "Accept messages with bytes after their end",
        "what they declare is whole, and some senders add bytes"),
    Key("queue_qos0_for_sleepers", Boolean(),
        "Keep messages of QoS 0 for a sensor that sleeps until it asks for them, in memory only: "
        "a restart of the gateway forgets them",
        "QoS 0 is for those who listen; each one kept costs a sleeper time on the air"),
    Key("awake_s_max", Number(0, 3600),
        "How long a sensor that woke up to fetch its messages also gets those that come "
        "meanwhile; later ones wait until it wakes again. What waited when it asked it gets in any "
        "case. 0 for nothing else",
        "long enough for the answer to an answer, and no stream of messages empties a battery"),
))

FORWARDERS = Table("forwarders", "Radio bridges that speak for many nodes, each in an envelope",
                   settings=settings.ForwardersSettings, parts=(
    Key("allow", Boolean(), "Accept them", "a bridge can do no more than its nodes could"),
    Key("listed", Networks(FORWARDERS_MAX),
        "Addresses of those that are accepted, or networks that they are in; empty for all; those "
        "on serial lines have none, and are accepted",
        "nothing is known of the site", example='["10.0.0.7", "192.168.4.0/24"]'),
))

VALUE_NAME = Text(1, 128)
PRESENCE = Table(
    "presence", "What the gateway says of itself and its devices at the broker, retained, below "
    "tidegate/ and its name; tidegate/NAME/state is said in any case",
    settings=settings.PresenceSettings, parts=(
    Key("clients", Boolean(),
        "Say of each device whether it is awake, asleep and until when, overdue or lost",
        "who looks at the broker wants to know"),
    Key("stats_s", Integer(0, 86_400), "Time from one message of statistics to the next, 0 for "
        "none", "a message a minute costs nobody anything"),
    Key("messages_per_s_max", Integer(1, 10_000),
        "Most messages a second of this kind; what is not said yet waits, what changes meanwhile "
        "is said once", "10 kB/s; 10,000 devices are told to a broker that knows nothing in 200 s"),
    Key("visitors", Texts(LISTED_MAX, CLIENT_ID),
        "Client ids of sensors that stay available for visitor_available_s after they have "
        "disconnected or are lost, in place of a time that is learnt from their habit",
        "habits are learnt", example='["tank", "letter-box"]'),
    Key("visitor_available_s", Integer(0, 31_536_000),
        "How long a sensor that connects, publishes and disconnects at once stays available, "
        "until its habit is known", "many report once a day"),
))

PRESENCE_CLIENT = Table(
    "presence_client", "Which devices stay available when they have disconnected or are lost, "
    "where their habit does not say so: the first entry that fits decides; repeat the table for "
    "more",
    settings=settings.PresenceClientSettings, parts=(
    Key("client", Text(1, 255), "Client id; * stands for any text, so that one entry fits many "
        "devices", default="must be given", example='"meter-*"'),
    Key("visitor", Boolean(), "true: it stays available for available_s; false: not at all",
        default="by habit, or true with available_s", example="true"),
    Key("available_s", Integer(0, 31_536_000), "How long, from then on; 0: by habit, or with "
        "visitor as presence.visitor_available_s says",
        default="presence.visitor_available_s", example="3600"),
))

HOME_ASSISTANT = Table(
    "home_assistant", "Devices and their values for Home Assistant, by its MQTT discovery",
    settings=settings.HomeAssistantSettings, parts=(
    Key("enable", Boolean(), "Announce them", "nothing is announced unless asked for"),
    Key("discovery_prefix", Text(1, DISCOVERY_PREFIX_BYTES_MAX, forbidden="+#"),
        "Where Home Assistant looks, as set in its MQTT integration; upstream.topic_prefix is not "
        "put before it", "that of Home Assistant"),
    Key("birth_topic", Text(1, DISCOVERY_PREFIX_BYTES_MAX, forbidden="+#"),
        'Where Home Assistant says "online" when it starts; everything is announced again then',
        "that of Home Assistant"),
    Key("sensors_may_configure", Boolean(), "Take from sensors what Home Assistant would read as "
        "the configuration of a gateway or its devices: discovery_prefix/*/tidegate_*; it is "
        "refused otherwise, also while enable is false",
        "a sensor could remove or change the entities of others"),
    Key("gateway_commands", Boolean(), "Restart the gateway and set its log level from there: "
        "tidegate/NAME/command/restart and .../log_level, where no sensor can publish, but others "
        "whom the broker lets", "those can change what Home Assistant shows as well"),
    Key("values_per_device_max", Integer(1, 1024),
        "Values of one device; those that are hidden have as many places of their own. What is "
        "left out is logged once, and is an alarm", "more than most devices have"),
    Key("text_characters_max", Integer(16, 255),
        "Characters of a text; a longer one is cut, which is logged once, and is an alarm",
        "the longest state that Home Assistant takes"),
))

HOME_ASSISTANT_DEVICE = Table(
    "home_assistant_device", "What a device is for Home Assistant, until a user changes it there: "
    "the first entry that fits decides; repeat the table for more devices",
    settings=settings.HomeAssistantDeviceSettings, parts=(
    Key("client", Text(1, 255), "Client id; * stands for any text, so that one entry fits many "
        "devices", default="must be given", example='"meter-7"'),
    Key("name", VALUE_NAME, "What it is called; not beside a *", default="the client id",
        example='"Water meter"'),
    Key("area", VALUE_NAME, "Room or area that it is put in when it is new", default="none",
        example='"Cellar"'),
    Key("manufacturer", VALUE_NAME, "Who has made it", default="Tidegate", example='"Acme"'),
    Key("model", VALUE_NAME, "What it is", default="MQTT-SN device", example='"Meter 2"'),
))

HOME_ASSISTANT_VALUE = Table(
    "home_assistant_value", "What a value is for Home Assistant, where its SenML unit does not say "
    "so: the first entry that fits decides; repeat the table for more values",
    settings=settings.HomeAssistantValueSettings, parts=(
    Key("name", Text(0, 128), "The value as its device names it, SenML's n",
        default="must be given", example='"co2"'),
    Key("client", Text(1, 255), "Only that of this device; * stands for any text, so that one "
        "entry fits many devices", default="of every device", example='"kitchen-*"'),
    Key("topic", TopicFilter(TOPIC_BYTES_MAX), "Only on these topics", default="on every topic",
        example='"sensors/+/air"'),
    Key("label", VALUE_NAME, "What Home Assistant shows", default="the name", example='"CO2"'),
    Key("unit", Text(1, 32), "Unit of measurement, as Home Assistant writes it",
        default="as the SenML unit says", example='"ppm"'),
    Key("device_class", DeviceClass(1, 64), "What kind of value it is",
        default="as the SenML unit says", example='"carbon_dioxide"'),
    Key("state_class", Choice(STATE_CLASSES), "How Home Assistant makes statistics of it",
        default="as the SenML unit says", example='"measurement"'),
    Key("precision", Integer(0, 10), "Digits behind the decimal point that are shown",
        default="as Home Assistant does for its device class", example="1"),
    Key("icon", Icon(1, 96), "Icon", default="that of its device class",
        example='"mdi:molecule-co2"'),
    Key("entity_category", Choice(ENTITY_CATEGORIES), "Where the page of its device shows it: "
        "diagnostic sets it apart from what the device measures",
        default="none, but diagnostic for signal strength, uptime and the like",
        example='"diagnostic"'),
    Key("enabled_by_default", Boolean(), "Whether it is there until somebody enables it",
        default="as entity_category", example="true"),
    Key("options", Texts(ENUM_OPTIONS_MAX, Text(1, 255)), "The texts that it can be; needs "
        'device_class = "enum", or none', default="any text", example='["idle", "running"]'),
    Key("payload_on", Text(1, 255), "The text or number that means on, of a binary sensor",
        default="1, true, on, yes, open and the like", example='"wet"'),
    Key("payload_off", Text(1, 255), "The same for off", default="0, false, off, no, closed and "
        "the like", example='"dry"'),
    Key("hide", Boolean(), "Do not announce it", "all values are wanted"),
    Key("min_change", Number(0, 1e9),
        "Publish the number again only when it has changed by so much, or another value of its "
        "reading is due", "each reading is published, at most one a second", example="0.5"),
    Key("expire_after_s", Integer(0, 31_536_000),
        "It is unknown when it did not come for so long; 0: by its own rhythm, if it has one",
        "a value that comes when it changes stays true", example="3600"),
    Key("event", Boolean(),
        "Each time that it comes is an event, such as a button that was pressed; texts named "
        "action, button, click or event are events in any case", "most values are states"),
))

HOME_ASSISTANT_COMMAND = Table(
    "home_assistant_command", "What Home Assistant may tell a device, by a message on a topic to "
    "which the device has subscribed; it waits in the gateway for one that sleeps. Of one name the "
    "first entry that fits a device decides; repeat the table for more commands",
    settings=settings.HomeAssistantCommandSettings, parts=(
    Key("name", CommandName(1, 64), "The command, unique within a device",
        default="must be given", example='"interval"'),
    Key("kind", Choice(COMMAND_KINDS), "What it is for Home Assistant; a light is only switched on "
        "and off", default="must be given", example='"number"'),
    Key("topic", Text(1, TOPIC_BYTES_MAX, forbidden="+#"), "Where it is sent, as the device names "
        "it; {client} stands for the device's client id, and is needed where the entry fits "
        "several devices", default="must be given", example='"sensors/{client}/set"'),
    Key("client", Text(1, 255), "Only that of this device; * stands for any text, so that one "
        "entry fits many devices", default="of every device", example='"sensor-*"'),
    Key("label", VALUE_NAME, "What Home Assistant shows", default="the name", example='"Interval"'),
    Key("state", Text(0, 128), "The value of the device's readings, as the device names it, that "
        "shows what is in effect; it is not shown as a value as well",
        default="Home Assistant takes what it has sent for it", example='"interval_s"'),
    Key("state_topic", TopicFilter(TOPIC_BYTES_MAX), "The topics of that value, if it comes on "
        "several", default="any topic of the device", example='"sensors/+/state"', needs="state"),
    Key("qos", Integer(0, 2), "QoS with which Home Assistant sends it; with 0 it is not kept for a "
        "device that sleeps", "it waits for a device that sleeps"),
    Key("retain", Boolean(), "The broker keeps the last one, for a device that subscribes later",
        "an old command does not surprise a device that comes back"),
    Key("expiry_s", Integer(0, 31_536_000), "A command that the device does not take within so "
        "many seconds, from its arrival at the gateway, is not delivered; 0: it waits. "
        "deliver_within_s of [[topic]] comes first", "a setting stays valid", example="600"),
    Key("min", COMMAND_NUMBER, "Least number, or least characters of a text",
        default="1, of a text 0, as Home Assistant has it", example="0"),
    Key("max", COMMAND_NUMBER, "Largest number, or most characters of a text",
        default="100, of a text 255, as Home Assistant has it", example="3600"),
    Key("step", Number(0.001, 1e12), "Step of a number", default="1, as Home Assistant has it",
        example="0.5"),
    Key("mode", Choice(COMMAND_MODES), "How it is entered: a number by auto, box or slider, a text "
        "as text or password", default="auto, text", example='"box"'),
    Key("unit", Text(1, 32), "Unit of a number, as Home Assistant writes it", default="none",
        example='"s"'),
    Key("device_class", CommandClass(1, 64), "What kind of number, switch or button it is",
        default="none", example='"duration"'),
    Key("options", Texts(ENUM_OPTIONS_MAX, Text(1, 255)), "What can be selected; a select needs it",
        default="none", example='["auto", "day", "night"]'),
    Key("payload", Text(1, 1024), "How a number, a text or a selected option is written: {value} "
        "stands for it. In JSON a text is escaped, and quoted where it is not",
        default="the value alone", example="""'{"interval_s": {value}}'"""),
    Key("payload_on", Text(1, 255), "What switches on", default="ON", example='"open"'),
    Key("payload_off", Text(1, 255), "What switches off", default="OFF", example='"close"'),
    Key("payload_press", Text(1, 255), "What a button sends", default="PRESS", example='"reboot"'),
    Key("icon", Icon(1, 96), "Icon", default="that of its device class",
        example='"mdi:timer"'),
    Key("entity_category", Choice(COMMAND_CATEGORIES), "Where the page of its device shows it: "
        "config sets it apart from what one uses daily", default="none", example='"config"'),
    Key("enabled_by_default", Boolean(), "Whether it is there until somebody enables it",
        default="true", example="false"),
))

LIMITS = Table("limits", "What the gateway holds at most, whatever sensors do",
               settings=settings.LimitsSettings, parts=(
    Key("clients_max", Integer(1, 1_000_000), "Sensors; when full, new ones receive congestion",
        "20 MiB of memory, at 2 KiB each"),
    Key("clients_per_host_max", Integer(0, 1_000_000),
        "Sensors of one host, that is of one IP address, with all behind it if it is a forwarder "
        "or a router, or of one serial line; a further one receives congestion. 0 for no limit: "
        "only when clients_max is reached a host with many gives way to others",
        "all sensors may be behind one router"),
    Key("topics_per_client_max", Integer(1, 65_534), "Registered topics of one sensor",
        "sensors have few, a bridge of many values has a hundred"),
    Key("topics_per_host_max", Integer(0, 100_000_000),
        "Registered topics of all sensors of one host, beside 8 of each; a further one receives "
        "congestion. 0 for no limit",
        "16 to 40 MB of memory, and a thousand bridges behind one router"),
    Key("subscriptions_per_client_max", Integer(1, 65_535), "Subscriptions of one sensor",
        "sensors have few"),
    Key("outbox_messages_max", Integer(1, 100_000),
        "Messages that wait for one sensor, most of them while it sleeps",
        "a burst from the broker while the sensor acknowledges one by one"),
    Key("outbox_bytes_max", Size(KIB, GIB), "The same limit in bytes",
        "256 messages of full size"),
    Key("outbox_when_full", Choice(("drop_oldest", "drop_newest")),
        "What gives way when the outbox of a sensor is full; it is counted, and QoS 0 goes first",
        "an actuator that wakes should obey the newest command"),
    Key("payload_bytes_max", Integer(1, PAYLOAD_BYTES_MAX), "Largest payload, either way",
        "four times what a LoRa frame carries"),
    Key("retained_messages_max", Integer(0, 1_000_000),
        "Retained messages kept for new subscribers", "one for each sensor"),
    Key("retained_bytes_max", Size(KIB, GIB), "The same limit in bytes",
        "all of them at 1.6 KiB"),
    Key("topic_bytes_max", Integer(1, TOPIC_BYTES_MAX), "Longest topic name",
        "longer ones do not fit a radio frame"),
    Key("disconnects_per_s_max", Integer(0, 10_000),
        "Answers a second to messages from unknown peers, 0 for none",
        "no use for flooding a third party"),
    Key("connects_per_s_max", Integer(1, 1_000_000),
        "CONNECTs a second from addresses where no sensor is known to be; as many more with the "
        "id of a sensor that is known", "a twentieth of what the gateway could do"),
    Key("connects_at_once_max", Integer(1, 1_000_000),
        "How many of them may come at once, before connects_per_s_max counts",
        "10,000 sensors return after a power cut, and some repeat"),
    Key("unproven_clients_max", Integer(1, 1_000_000),
        "New sensors that have said nothing after CONNECT; the oldest gives its place to the next, "
        "and must connect again", "as many as may connect at once, 4 MiB"),
    Key("will_handshakes_max", Integer(1, 1_000_000),
        "The same for those that were asked for their will and have not answered yet",
        "as many as may connect at once, 4 MiB"),
    Key("packets_per_s_max", Integer(0, 1_000_000),
        "Messages a second from one sensor's address, 0 for no limit; what comes beyond is not "
        "read", "a sensor that is gone mad costs CPU time, not memory"),
    Key("egress_bytes_per_s_max", Integer(0, 1_000_000_000),
        "Bytes a second to one sensor, 0 for no limit; beyond it QoS 0 is dropped, QoS 1 and 2 "
        "wait", "the network is for the operator to know"),
    Key("memory_percent_max", Integer(10, 100),
        "Of the memory of its control group, or of the machine, used by all together: from then on "
        "new sensors receive congestion, so is one with 16 topic names that registers another, "
        "and what would wait in memory goes to disk; 100: never",
        "the kernel ends a process that gets none; what is left is enough for a busy minute"),
))

LOG_LEVEL = Choice(("debug", "info", "warning", "error"))
LOG_FORMAT = Choice(("text", "json"))
LOG = Table("log", "What is written to stderr", settings=settings.LogSettings, parts=(
    Key("level", LOG_LEVEL, "The least that is written",
        "connections and faults, not every message", at_once=True),
    Key("format", LOG_FORMAT, "One line for people, or one JSON object, per event",
        "people read it first", at_once=True),
))
# fmt: on

ROOT = Table(
    "",
    "The whole file",
    settings=settings.Settings,
    parts=(
        GATEWAY,
        Repeated(UDP, LISTENERS_MAX),
        Repeated(SERIAL, LINES_MAX, is_optional=True),
        DISCOVERY,
        UPSTREAM,
        JOURNAL,
        PREDEFINED_TOPICS,
        CLIENTS,
        QOS_MINUS_ONE,
        # In the file of `tidegate init` its keys are comments, and the table before it must know
        # none of their names: one that is uncommented alone is then a mistake that is found.
        Repeated(TOPIC_SETTINGS, TOPIC_FILTERS_MAX, is_optional=True),
        SECURITY,
        Repeated(BINDING, BINDINGS_MAX, is_optional=True),
        DTLS,
        PROTECTION,
        Repeated(ACCESS, ACCESS_RULES_MAX, is_optional=True),
        MQTT_SN,
        FORWARDERS,
        ADMISSION,
        PRESENCE,
        Repeated(PRESENCE_CLIENT, PATTERNS_MAX, is_optional=True),
        HOME_ASSISTANT,
        Repeated(HOME_ASSISTANT_DEVICE, VALUES_MAX, is_optional=True),
        Repeated(HOME_ASSISTANT_VALUE, VALUES_MAX, is_optional=True),
        Repeated(HOME_ASSISTANT_COMMAND, COMMANDS_MAX, is_optional=True),
        ADMIN,
        Repeated(ADMIN_USER, ACCOUNTS_MAX, is_optional=True),
        Repeated(ADMIN_TOKEN, ACCOUNTS_MAX, is_optional=True),
        LIMITS,
        LOG,
    ),
)
