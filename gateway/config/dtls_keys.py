"""The part of the table of keys that is about DTLS; see `keys.py`."""

from gateway.config import settings
from gateway.config.credential import CredentialPath
from gateway.config.kinds import Choice, Integer, Text, Texts
from gateway.config.schema import Key, Table

SUBJECTS_MAX = 10_000
HOOK_CHARACTERS_MAX = 1024

# fmt: off
SECURITY_OF_UDP = Key(
    "security", Choice(("none", "protected", "dtls-psk", "dtls-cert")),
    "What a sensor must show at this address: nothing, the key of a device in each packet "
    "(protected) or in DTLS (dtls-psk), or a certificate (dtls-cert); see [protection] and [dtls]",
    "MQTT-SN 1.2 has no security of its own, and most sensors speak no DTLS")

DTLS = Table("dtls", "DTLS 1.2, for [[udp]] with security as dtls-psk or dtls-cert",
             settings=settings.DtlsSettings, parts=(
    Key("certificate", CredentialPath(),
        "Certificate (PEM) of the gateway, with those between it and the authority that sensors "
        "trust, for dtls-cert", example='"/etc/tidegate/dtls.pem"', at_once=True),
    Key("key", CredentialPath(), "Private key (PEM) of certificate",
        example='"/etc/tidegate/dtls.key"', needs="certificate", at_once=True),
    Key("ca", CredentialPath(), "Certificates (PEM) of authorities that vouch for sensors",
        example='"/etc/tidegate/sensors-ca.pem"', needs="certificate", at_once=True),
    Key("crl", CredentialPath(), "Revocation list (PEM) of ca",
        example='"/etc/tidegate/sensors.crl"', needs="ca", at_once=True),
    Key("allow", Texts(SUBJECTS_MAX, Text(1, 255)),
        "Subjects of certificates that may come in: the common name, or without one the first "
        "alternative name; * stands for any text", "all that ca vouches for",
        example='["greenhouse-*"]', at_once=True),
    Key("allow_file", CredentialPath(), "File of further subjects as in allow, one a line; lines "
        "that begin with # do not count", example='"/etc/tidegate/sensors.txt"', needs="ca",
        at_once=True),
    Key("key_hook", Text(1, HOOK_CHARACTERS_MAX),
        "Where keys of dtls-psk are asked for that are not known here: a URL, which gets "
        "?identity=NAME, or a command, which gets NAME; it answers with the key in hexadecimal "
        "digits, with nothing for a name that it does not know",
        example='"/usr/local/bin/device-key"'),
    Key("sessions_max", Integer(1, 100_000), "Sessions at one address; when full, one that no "
        "sensor needs ends, or else the new one is refused", "32 MiB of memory"),
    Key("handshakes_max", Integer(1, 10_000), "Handshakes at one address that are not complete; "
        "when full, the oldest of the host with the most gives way", "8 MiB of memory"),
    Key("idle_s", Integer(1, 604_800), "How long a session stays when its sensor is neither "
        "connected nor asleep", "long enough to come back without a handshake"),
    Key("mtu", Integer(256, 16_384), "Largest datagram of a handshake, in bytes without the heads "
        "of IP and UDP; radio networks have less", "fits what IPv6 carries everywhere"),
))
# fmt: on
