"""A real mosquitto that asks for client certificates, and knows the gateway by its name in one."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from hil.rig.gateway import GatewayProcess
from hil.rig.mosquitto import Mosquitto
from tests.transports.certificates import Certificates


@pytest.fixture(scope="module")
def certificates(tmp_path_factory: pytest.TempPathFactory) -> Certificates:
    made = Certificates(tmp_path_factory.mktemp("certificates"))
    made.signed("renewed", "subjectAltName=DNS:gateway")
    for each in (made.folder, *made.folder.iterdir()):  # mosquitto has a user of its own
        each.chmod(0o755)
    for folder in made.folder.parents:
        if folder != Path("/tmp") and Path("/tmp") in folder.parents:
            folder.chmod(0o755)
    return made


def broker(made: Certificates) -> Mosquitto:
    lines = (
        f"cafile {made.authority}", f"certfile {made.server}", f"keyfile {made.key(made.server)}",
        "require_certificate true", "use_identity_as_username true", "log_type all",
    )  # fmt: skip
    return Mosquitto(lines)


def use(made: Certificates, name: str, folder: Path) -> None:
    """In the places that the configuration names."""
    for suffix in ("key", "pem"):
        shutil.copy(made.folder / f"{name}.{suffix}", folder / f"ours.{suffix}")


def gateway(folder: Path, at: Mosquitto, made: Certificates, *, has_one: bool) -> GatewayProcess:
    lines = f'ca_file = "{made.authority}"\n'
    if has_one:
        lines += f'cert_file = "{folder}/ours.pem"\nkey_file = "{folder}/ours.key"\n'
    return GatewayProcess(folder, f"mqtts://127.0.0.1:{at.port}", lines)


REFUSED = "refused our certificate or misses one: check upstream.cert_file and upstream.key_file"


@pytest.mark.parametrize(
    ("name", "sentence"),
    [
        ("expired", "says that our certificate has expired: renew upstream.cert_file"),
        ("untrusted", REFUSED),
        (None, REFUSED),
    ],
)
def test_a_certificate_that_is_not_taken_is_named(
    certificates: Certificates, tmp_path: Path, name: str | None, sentence: str
) -> None:
    if name is not None:
        use(certificates, name, tmp_path)
    with (
        broker(certificates) as at,
        gateway(tmp_path, at, certificates, has_one=name is not None) as ours,
    ):
        ours.wait_for_log(sentence, timeout_s=60.0)


def test_the_name_in_it_is_the_user_and_a_new_one_is_taken_when_it_is_there(
    certificates: Certificates, tmp_path: Path
) -> None:
    use(certificates, "client", tmp_path)
    with (
        broker(certificates) as at,
        gateway(tmp_path, at, certificates, has_one=True) as ours,
    ):
        ours.wait_until_connected()
        assert "u'client'" in at.log_path.read_text()
        use(certificates, "renewed", tmp_path)
        ours.wait_for_log("in use from now on", timeout_s=60.0)
        ours.wait_for_log(
            r"(?s)in use from now on.*(connected to broker |broker \S+ is back)", 60.0
        )
        assert "u'renewed'" in at.log_path.read_text()
