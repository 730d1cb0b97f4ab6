"""What is said where Spark does not start, without Spark."""

from __future__ import annotations

import socket

import pytest

from spark_ingest.spark.errors import unknown_name


def test_the_name_of_a_machine_is_blamed_only_where_it_has_no_address(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(socket, "gethostname", lambda: "localhost")
    assert unknown_name() == ""
    monkeypatch.setattr(socket, "gethostname", lambda: "no-such-machine.invalid")
    assert "no-such-machine.invalid, the name of this machine" in unknown_name()
    assert "/etc/hosts" in unknown_name()
