"""The order of the site's pages: that of a user's way, from the installation to the reference.

A document that is not here fails the build of the site, and tests/house/test_site.py.
"""

from __future__ import annotations

ROOT_PAGE = "README"
DECISIONS = "docs/decisions/README"
EXAMPLES = "docs/site/examples"
FIRMWARE = "docs/site/api/firmware"
HTTP_API = "docs/site/http_api"

PARTS: dict[str, tuple[str, ...]] = {
    "Install": (
        "docs/README",
        "docs/raspberry_pi",
        "docs/service",
        "docs/moving",
        "docs/from_paho",
    ),
    "First sensor": (
        "docs/add_a_sensor",
        "docs/flashing",
        "docs/node",
        "docs/serial",
        "docs/home_assistant",
    ),
    "Operate": (
        "docs/operating",
        "docs/status_page",
        "docs/scripts",
        "docs/mqtt",
        "docs/brokers",
        "docs/secure_broker",
        "docs/security",
        "docs/open_to_closed",
        "docs/backup",
        "docs/upgrading",
        "docs/troubleshooting",
        "docs/faq",
    ),
    "Use the readings": ("docs/consumers", "docs/spark"),
    "Develop": (
        "docs/sensors",
        "docs/firmware",
        "docs/embedding",
        "docs/design",
        DECISIONS,
        "CONTRIBUTING",
        "CODE_OF_CONDUCT",
        "docs/hil",
    ),
    "Reference": (
        "docs/configuration",
        "docs/metrics",
        "docs/messages",
        HTTP_API,
        FIRMWARE,
        "docs/site/api/core",
        "docs/site/api/frames",
        EXAMPLES,
        "docs/guarantees",
        "docs/conformance",
        "docs/spec_decisions",
        "docs/performance",
        "docs/machines",
        "docs/glossary",
        "SECURITY",
        "CHANGELOG",
    ),
}


def pages() -> list[str]:
    """All of them, without their suffixes."""
    listed = [page for part in PARTS.values() for page in part]
    return [ROOT_PAGE, *listed, "docs/decisions/[0-9]*"]


def root_toctrees() -> str:
    return "".join(_toctree(listed, f":caption: {part}") for part, listed in PARTS.items())


def decisions_toctree() -> str:
    return _toctree(("docs/decisions/0*",), ":glob:")


def _toctree(listed: tuple[str, ...], option: str) -> str:
    lines = ["```{toctree}", ":hidden:", option, "", *(f"/{each}" for each in listed), "```"]
    return "\n\n" + "\n".join(lines) + "\n"
