"""`pytest hil` is the plugin at work on its own scenarios."""

from hil.plugin import (
    pytest_addoption,
    pytest_collect_file,
    pytest_configure,
    pytest_report_header,
    pytest_sessionfinish,
    pytest_unconfigure,
)

__all__ = [
    "pytest_addoption",
    "pytest_collect_file",
    "pytest_configure",
    "pytest_report_header",
    "pytest_sessionfinish",
    "pytest_unconfigure",
]
