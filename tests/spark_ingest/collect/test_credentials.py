"""Files of passwords and certificates that cannot be used: which key, which file, and why."""

from __future__ import annotations

from pathlib import Path

import pytest

from spark_ingest.collect.credentials import password_of, tls_of
from spark_ingest.config.kinds import Broker
from spark_ingest.config.problems import ConfigError
from spark_ingest.config.settings import BrokerSettings

TLS = Broker("127.0.0.1", 8883, True)


def test_the_first_line_of_the_file_is_the_password(tmp_path: Path) -> None:
    path = tmp_path / "password"
    assert password_of(BrokerSettings()) is None
    path.write_bytes(b"tide\nand time\n")
    assert password_of(BrokerSettings(password_file=path)) == b"tide"
    path.write_bytes(b"")
    assert password_of(BrokerSettings(password_file=path)) == b""


def test_a_password_file_that_is_not_there_is_named(tmp_path: Path) -> None:
    path = tmp_path / "password"
    with pytest.raises(ConfigError, match=f"broker.password_file: {path}: No such file"):
        password_of(BrokerSettings(password_file=path))


@pytest.mark.parametrize("key", ["ca_file", "cert_file", "key_file"])
def test_a_tls_file_that_is_not_there_is_named(tmp_path: Path, key: str) -> None:
    path = tmp_path / "file.pem"
    settings = BrokerSettings(url=TLS, **{key: path})  # type: ignore[arg-type]
    with pytest.raises(ConfigError, match=f"broker.{key}: {path}: No such file"):
        tls_of(settings)


def test_a_certificate_that_is_none_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "file.pem"
    path.write_bytes(b"\x30\x82")
    with pytest.raises(ConfigError, match="PEM form without a password is expected"):
        tls_of(BrokerSettings(url=TLS, cert_file=path))


def test_without_tls_no_file_is_read(tmp_path: Path) -> None:
    assert tls_of(BrokerSettings(ca_file=tmp_path / "none")) is None
    context = tls_of(BrokerSettings(url=TLS))
    assert context is not None
    assert context.check_hostname
