"""The keys of what the gateway says on MQTT of itself and its devices: a part of `keys.py`."""

from dataclasses import dataclass

from gateway.config.kinds import Boolean, Choice, Integer, Text
from gateway.config.notice_settings import (
    HomeAssistantSettings,
    HomeAssistantValueSettings,
    PresenceSettings,
)
from gateway.config.schema import Key, Table

VALUES_MAX = 256  # named in the file one by one
PREFIX_BYTES_MAX = 128

# Those of Home Assistant 2025.4, of sensors and of binary sensors; docs/home_assistant.md.
SENSOR_CLASSES = (
    "apparent_power",
    "aqi",
    "area",
    "atmospheric_pressure",
    "battery",
    "blood_glucose_concentration",
    "carbon_dioxide",
    "carbon_monoxide",
    "conductivity",
    "current",
    "data_rate",
    "data_size",
    "date",
    "distance",
    "duration",
    "energy",
    "energy_distance",
    "energy_storage",
    "enum",
    "frequency",
    "gas",
    "humidity",
    "illuminance",
    "irradiance",
    "moisture",
    "monetary",
    "nitrogen_dioxide",
    "nitrogen_monoxide",
    "nitrous_oxide",
    "ozone",
    "ph",
    "pm1",
    "pm10",
    "pm25",
    "power",
    "power_factor",
    "precipitation",
    "precipitation_intensity",
    "pressure",
    "reactive_power",
    "signal_strength",
    "sound_pressure",
    "speed",
    "sulphur_dioxide",
    "temperature",
    "timestamp",
    "volatile_organic_compounds",
    "volatile_organic_compounds_parts",
    "voltage",
    "volume",
    "volume_flow_rate",
    "volume_storage",
    "water",
    "weight",
    "wind_direction",
    "wind_speed",
)
BINARY_CLASSES = (
    "battery",
    "battery_charging",
    "carbon_monoxide",
    "cold",
    "connectivity",
    "door",
    "garage_door",
    "gas",
    "heat",
    "light",
    "lock",
    "moisture",
    "motion",
    "moving",
    "occupancy",
    "opening",
    "plug",
    "power",
    "presence",
    "problem",
    "running",
    "safety",
    "smoke",
    "sound",
    "tamper",
    "update",
    "vibration",
    "window",
)
DEVICE_CLASSES = tuple(dict.fromkeys((*SENSOR_CLASSES, *BINARY_CLASSES)))
STATE_CLASSES = ("measurement", "measurement_angle", "total", "total_increasing")

NAME = Text(1, 128)


@dataclass(frozen=True, slots=True)
class DeviceClass(Choice):
    """One of many words, so they are not all listed."""

    @property
    def range(self) -> str:
        return "those of Home Assistant"

    @property
    def expected(self) -> str:
        return 'a device class of Home Assistant, such as "temperature" or "door"'


# fmt: off
PRESENCE = Table(
    "presence", "What the gateway says of itself and its devices at the broker, retained, below "
    "tidegate/ and its name; tidegate/NAME/state is said in any case", settings=PresenceSettings,
    parts=(
    Key("clients", Boolean(),
        "Say of each device whether it is awake, asleep and until when, overdue or lost",
        "who looks at the broker wants to know"),
    Key("stats_s", Integer(0, 86_400), "Time from one message of statistics to the next, 0 for "
        "none", "a message a minute costs nobody anything"),
    Key("messages_per_s_max", Integer(1, 10_000),
        "Most messages a second of this kind; what is not said yet waits, what changes meanwhile "
        "is said once", "10 kB/s; 10,000 devices are told to a broker that knows nothing in 200 s"),
))

HOME_ASSISTANT = Table(
    "home_assistant", "Devices and their values for Home Assistant, by its MQTT discovery",
    settings=HomeAssistantSettings, parts=(
    Key("enable", Boolean(), "Announce them", "nobody is announced unasked"),
    Key("discovery_prefix", Text(1, PREFIX_BYTES_MAX, forbidden="+#"),
        "Where Home Assistant looks, as set in its MQTT integration; upstream.topic_prefix is not "
        "put before it", "that of Home Assistant"),
    Key("birth_topic", Text(1, PREFIX_BYTES_MAX, forbidden="+#"),
        'Where Home Assistant says "online" when it starts; everything is announced again then',
        "that of Home Assistant"),
))

HOME_ASSISTANT_VALUE = Table(
    "home_assistant_value", "What a value is for Home Assistant, where its SenML unit does not say "
    "so: the first entry that fits decides; repeat the table for more values",
    settings=HomeAssistantValueSettings, parts=(
    Key("name", NAME, "The value as its device names it, SenML's n", default="must be given",
        example='"co2"'),
    Key("client", Text(1, 255), "Only that of this device", default="of every device",
        example='"kitchen-1"'),
    Key("label", NAME, "What Home Assistant shows", default="the name", example='"CO2"'),
    Key("unit", Text(1, 32), "Unit of measurement, as Home Assistant writes it",
        default="as the SenML unit says", example='"ppm"'),
    Key("device_class", DeviceClass(DEVICE_CLASSES), "What kind of value it is",
        default="as the SenML unit says", example='"carbon_dioxide"'),
    Key("state_class", Choice(STATE_CLASSES), "How Home Assistant makes statistics of it",
        default="as the SenML unit says", example='"measurement"'),
    Key("hide", Boolean(), "Do not announce it", "all values are wanted"),
))
# fmt: on
