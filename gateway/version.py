"""Which version of Tidegate this is, as installed."""

from __future__ import annotations


def version() -> str:
    # Imported here: it costs more than anything else on the way to `tidegate --help`.
    from importlib.metadata import PackageNotFoundError
    from importlib.metadata import version as version_of

    try:
        return version_of("tidegate")
    except PackageNotFoundError:
        return "(not installed, run from its source)"
