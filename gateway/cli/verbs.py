"""The table of verbs. What `tidegate --help` says stands here, so that it need not import them."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Verb:
    """Implemented by `gateway/cli/<name>`, or `package`. The help is one sentence in lower case."""

    name: str
    help: str
    example: str
    package: str = ""  # where the name is a word of Python

    @property
    def module(self) -> str:
        return f"gateway.cli.{self.package or self.name}"


VERBS = (
    Verb(
        "run",
        "serve sensors until told to stop",
        "tidegate run --config /etc/tidegate/config.toml --log-level debug",
    ),
    Verb(
        "check",
        "say whether a configuration file is right, and everything that is wrong with it",
        "tidegate check /etc/tidegate/config.toml --show",
    ),
    Verb(
        "init",
        "write a configuration file with every key in it, explained",
        "tidegate init /etc/tidegate/config.toml",
    ),
    Verb(
        "import",
        "make a configuration file from that of another MQTT-SN gateway",
        "tidegate import paho gateway.conf --output tidegate.toml\n"
        "  tidegate import rsmb broker.cfg --output tidegate.toml",
        package="importing",
    ),
    Verb(
        "status",
        "show how the running gateway is doing, on one screen",
        "tidegate status --config /etc/tidegate/config.toml",
    ),
    Verb(
        "health",
        "say whether the running gateway is well, as an exit code for a supervisor",
        "tidegate health --config /etc/tidegate/config.toml",
    ),
    Verb(
        "clients",
        "list the sensors: who listens, who sleeps until when, who is overdue or lost",
        "tidegate clients --overdue\n  tidegate clients greenhouse-7",
    ),
    Verb(
        "forget",
        "have the gateway forget a sensor, and clear what the broker retains of it",
        "tidegate forget greenhouse-7\n  tidegate forget greenhouse-7 --retained",
    ),
    Verb(
        "access",
        "say what a sensor may do by the rules of access, and why",
        "tidegate access explain greenhouse-7 publish sensors/greenhouse-7/air",
    ),
    Verb(
        "keys",
        "add, show, rotate and revoke the keys of devices, one by one or by a file of many",
        "tidegate keys add greenhouse-7\n  tidegate keys show greenhouse-7 --qr",
    ),
    Verb(
        "join",
        "let new sensors join, and approve of them or reject them",
        "tidegate join --for 120s\n  tidegate join approve greenhouse-7",
    ),
    Verb(
        "topics",
        "list the topics: their ids, who registered them, who hears them",
        "tidegate topics --prefix sensors/",
    ),
    Verb(
        "watch",
        "show readings as they arrive at the broker, decoded: of all sensors, of one, by a filter",
        "tidegate watch greenhouse-7\n  tidegate watch 'sensors/+/door' --json",
    ),
    Verb(
        "password",
        "make a user or a token for the status page, stored as a hash",
        "tidegate password --user anna --role operator | sudo tee -a /etc/tidegate/config.toml",
    ),
    Verb(
        "audit",
        "list who changed what, when and from where: on the page, by the API, by this command",
        "tidegate audit --since 7d",
    ),
    Verb(
        "buffer",
        "show the readings that wait for the broker on disk",
        "tidegate buffer --config /etc/tidegate/config.toml peek -n 20",
    ),
    Verb(
        "serial",
        "list the serial lines, and let another program have a port for a while",
        "tidegate serial release /dev/ttyUSB0 --for 5m\n  tidegate serial resume /dev/ttyUSB0",
    ),
    Verb(
        "doctor",
        "examine all that the gateway depends on, and say what to do about it",
        "tidegate doctor --config /etc/tidegate/config.toml\n  tidegate doctor --disk",
    ),
    Verb(
        "report",
        "put all that helps to understand a fault into one file, without secrets",
        "tidegate report --config /etc/tidegate/config.toml",
    ),
    Verb(
        "backup",
        "put the configuration, the state and all readings that wait into one file",
        "tidegate backup /media/usb/greenhouse.backup",
    ),
    Verb(
        "restore",
        "bring back what a backup holds, or say what it holds and whether it is whole",
        "tidegate restore --list /media/usb/greenhouse.backup\n"
        "  tidegate restore /media/usb/greenhouse.backup",
    ),
    Verb(
        "flash",
        "put MicroPython and the sensor's program on a board, and wait for its first reading",
        "tidegate flash --name greenhouse-3 --gateway 10.0.0.5 --wifi Garden --sensor internal",
    ),
    Verb(
        "simulate",
        "let any number of simulated sensors speak to a gateway, and say how it went",
        "tidegate simulate --gateway 10.0.0.5:1883 --sensors 1000 --sleep 30",
    ),
    Verb(
        "demo",
        "show the gateway at work, with a broker and simulated sensors on this machine",
        "tidegate demo --seconds 30",
    ),
    Verb(
        "unit",
        "write the service unit that starts this very installation, for systemd",
        "tidegate unit | sudo tee /etc/systemd/system/tidegate.service",
    ),
    Verb(
        "completion",
        "write the script with which a shell completes this command",
        "tidegate completion bash >~/.local/share/bash-completion/completions/tidegate",
    ),
    Verb(
        "man",
        "write the manual page, for man",
        "tidegate man >~/.local/share/man/man1/tidegate.1",
    ),
)
