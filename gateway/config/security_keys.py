"""The part of the table of keys that says who may do what; see `keys.py`."""

from gateway.config import settings
from gateway.config.credential import CredentialPath
from gateway.config.kinds import (
    TEXT_BYTES_MAX,
    Boolean,
    Choice,
    Integer,
    Text,
    Texts,
    TopicFilter,
    TopicFilters,
    Words,
)
from gateway.config.schema import Key, Table
from gateway.config.settings import ACCESS_ACTIONS

# The largest PUBLISH that fits one UDP datagram over IPv4: 65,507 bytes less a header of 9.
PAYLOAD_BYTES_MAX = 65_498
TOPIC_PREFIX_BYTES_MAX = 1024
# With the longest prefix it is still a text that MQTT can carry, and alone a datagram's REGISTER.
TOPIC_BYTES_MAX = TEXT_BYTES_MAX - TOPIC_PREFIX_BYTES_MAX
ACCESS_RULES_MAX = 10_000
BINDINGS_MAX = 10_000
FILTERS_PER_RULE_MAX = 64
NAMES_PER_RULE_MAX = 256
LISTED_MAX = 10_000  # as many sensors as limits.clients_max has by default
SERIAL_SECURITY = ("none", "protected")
CLIENT_ID = Text(1, 255)

# fmt: off
BINDING = Table(
    "binding", "Which identities may use which client ids: an id that fits an entry is for the "
    "identities of that entry, and an identity that fits one may use no others; what fits none is "
    "free; repeat the table for more",
    settings=settings.BindingSettings, parts=(
    Key("identities", Texts(NAMES_PER_RULE_MAX, Text(1, 255)), "How the sensor is known: "
        "anonymous@LISTENER, psk:NAME, cert:SUBJECT, sender:HEX, serial:PORT, forwarder:LINK/NODE; "
        "* stands for any text",
        default="must be given", example='["serial:serial0"]', at_once=True),
    Key("clients", Texts(NAMES_PER_RULE_MAX, Text(1, 255)), "Client ids; * stands for any text, "
        "{identity} for what follows the kind of the identity, as NAME of psk:NAME",
        default="must be given", example='["greenhouse-*"]', at_once=True),
))

ACCESS = Table(
    "access", "Who may publish, subscribe, receive and leave a will: the first entry that fits the "
    "sensor, what it does and the topic decides, else security.access_default; without entries all "
    "may do all; repeat the table for more",
    settings=settings.AccessSettings, parts=(
    Key("topics", TopicFilters(FILTERS_PER_RULE_MAX, TopicFilter(TOPIC_BYTES_MAX)),
        "Topics as sensors name them; {client} and {identity} stand for the sensor's own",
        default="must be given", example='["sensors/{client}/#"]', at_once=True),
    Key("clients", Texts(NAMES_PER_RULE_MAX, Text(1, 255)), "Client ids; * stands for any text",
        "every sensor", example='["greenhouse-*"]', at_once=True),
    Key("identities", Texts(NAMES_PER_RULE_MAX, Text(1, 255)), "How the sensor is known: "
        "anonymous@LISTENER, serial:PORT, forwarder:LINK/NODE; * stands for any text",
        "every identity", example='["serial:*"]', at_once=True),
    Key("actions", Words(len(ACCESS_ACTIONS), Choice(ACCESS_ACTIONS)), "What it does",
        "whatever it does", example='["publish", "will"]', at_once=True),
    Key("allow", Boolean(), "Whether it may", "entries that allow are the most", at_once=True),
    Key("qos_max", Integer(0, 2), "A message of it with a higher QoS is refused",
        "no other limit than the protocol's", at_once=True),
    Key("retain", Boolean(), "Whether its messages may be retained", "as without entries",
        at_once=True),
    Key("payload_bytes_max", Integer(0, PAYLOAD_BYTES_MAX), "Its larger messages are refused",
        default="limits.payload_bytes_max", example="64", at_once=True),
))

SECURITY = Table("security", "What holds where no rule says otherwise",
                 settings=settings.SecuritySettings, parts=(
    Key("access_default", Choice(("allow", "deny")), "What no entry of [[access]] fits",
        "where there are entries, what was forgotten is closed", at_once=True),
    Key("subscribe_wider", Choice(("refuse", "narrow")), "What becomes of a subscription to more "
        "than the entries allow: it is refused, or granted and brings what they do allow",
        "SUBACK is a promise, which the client would take for all of it", at_once=True),
    Key("keys_file", CredentialPath(), "Keys of devices, as the verb keys writes them; mode 0600",
        default="device.keys in gateway.state_dir", example='"credential:tidegate.keys"',
        at_once=True),
))

PROTECTION = Table(
    "protection", "Packets that sensors protect by a key, each in an envelope of MQTT-SN 2.0",
    settings=settings.ProtectionSettings, parts=(
    Key("required", Boolean(), "Drop all packets that are not protected, on each link; "
        "SEARCHGW, by which sensors look for the gateway, is answered",
        "sensors are given their keys one after the other"),
    Key("schemes", Words(len(settings.PROTECTION_SCHEMES), Choice(settings.PROTECTION_SCHEMES)),
        "How they may be protected: hmac-sha256 shows who has sent a packet, the others hide what "
        "is in it as well, and need the package cryptography",
        "each sensor uses the one that it can", example='["aes-ccm-64"]'),
    Key("tag_bits_min", Integer(64, 128), "The shortest tag that is taken",
        "a guess has a chance of 1 in 2^64", example="128"),
))

ADMISSION = Table("admission", "Which new sensors may come in",
                  settings=settings.AdmissionSettings, parts=(
    Key("permit", Choice(("all", "listed")),
        "All, or those that are listed and those that the operator lets in on the status page; "
        "others hear: congestion, and try again later. A client id is no proof of who it is",
        "MQTT-SN 1.2 has no passwords, and a list must be kept"),
    Key("listed", Texts(LISTED_MAX, CLIENT_ID), "Client ids of sensors that may come in",
        "nothing is known of the site", example='["greenhouse-1", "tank"]', at_once=True),
))
# fmt: on
