"""`tidegate check` refuses the files that `tidegate run` refuses, with its words and exit code."""

from __future__ import annotations

import json
import os
from collections.abc import Callable
from pathlib import Path

import pytest

from gateway.app.credentials import read_credentials, refuse_unusable
from gateway.config import credential, load
from gateway.transports.errors import LinkError
from tests.cli.tidegate import tidegate, tidegate_here
from tests.transports.certificates import Certificates, openssl


@pytest.fixture(scope="module")
def certificates(tmp_path_factory: pytest.TempPathFactory) -> Certificates:
    return Certificates(tmp_path_factory.mktemp("certificates"))


def own_certificate(cert: Path, key: Path) -> str:
    return f'cert_file = "{cert}"\nkey_file = "{key}"\n'


def key_of_another(folder: Path, made: Certificates) -> str:
    return own_certificate(made.client, made.key(made.server))


def authority_in_der(folder: Path, made: Certificates) -> str:
    openssl("x509", "-in", made.authority, "-outform", "DER", "-out", folder / "ca.der")
    return 'ca_file = "ca.der"\n'


def certificate_in_der(folder: Path, made: Certificates) -> str:
    openssl("x509", "-in", made.client, "-outform", "DER", "-out", folder / "c.der")
    return own_certificate(Path("c.der"), made.key(made.client))


def key_in_der(folder: Path, made: Certificates) -> str:
    # Of RSA, as one of an elliptic curve is too short to be known by its first bytes.
    openssl("genpkey", "-algorithm", "RSA", "-outform", "DER", "-out", folder / "k.der")
    return own_certificate(made.client, Path("k.der"))


def encrypted_key(folder: Path, made: Certificates) -> str:
    plain = made.key(made.client)
    openssl("pkey", "-in", plain, "-aes256", "-passout", "pass:x", "-out", folder / "locked.key")
    return own_certificate(made.client, Path("locked.key"))


def key_for_the_authority(folder: Path, made: Certificates) -> str:
    return f'ca_file = "{made.key(made.authority)}"\n'


def certificate_for_the_key(folder: Path, made: Certificates) -> str:
    return own_certificate(made.client, made.client)


def empty_authority(folder: Path, made: Certificates) -> str:
    (folder / "empty.pem").touch()
    return 'ca_file = "empty.pem"\n'


def damaged_authority(folder: Path, made: Certificates) -> str:
    text = made.authority.read_text()
    (folder / "damaged.pem").write_text(text[:100] + "!!!" + text[200:])
    return 'ca_file = "damaged.pem"\n'


def missing_authority(folder: Path, made: Certificates) -> str:
    return 'ca_file = "none.pem"\n'


def folder_for_the_authority(folder: Path, made: Certificates) -> str:
    return f'ca_file = "{folder}"\n'


def pipe_for_the_authority(folder: Path, made: Certificates) -> str:
    os.mkfifo(folder / "pipe.pem")
    return 'ca_file = "pipe.pem"\n'


def missing_password(folder: Path, made: Certificates) -> str:
    return 'username = "u"\npassword_file = "none"\n'


def empty_password_of_the_page(folder: Path, made: Certificates) -> str:
    (folder / "nothing").touch(0o600)
    return '[admin]\npassword_file = "nothing"\n'


def missing_password_of_the_page(folder: Path, made: Certificates) -> str:
    return '[admin]\npassword_file = "none"\n'


def state_in_a_file(folder: Path, made: Certificates) -> str:
    (folder / "file").touch()
    return '[gateway]\nstate_dir = "file/state"\n'


def half_restored(folder: Path, made: Certificates) -> str:
    (folder / "state").mkdir()
    (folder / "state" / "restore.unfinished").touch()
    return ""


@pytest.mark.parametrize(
    ("fault", "code", "words"),
    [
        (key_of_another, 78, "does not belong to cert_file"),
        (authority_in_der, 78, "is in DER form where PEM is needed"),
        (certificate_in_der, 78, "is in DER form where PEM is needed"),
        (key_in_der, 78, "is in DER form where PEM is needed"),
        (encrypted_key, 78, "is encrypted"),
        (key_for_the_authority, 78, "holds no certificate in PEM form"),
        (certificate_for_the_key, 78, "holds no private key in PEM form"),
        (empty_authority, 78, "holds no certificate in PEM form"),
        (damaged_authority, 78, "holds a damaged certificate"),
        (missing_authority, 78, "does not exist"),
        (folder_for_the_authority, 78, "cannot be read"),
        (pipe_for_the_authority, 78, "only a regular file is read"),
        (missing_password, 78, "cannot be read: No such file"),
        (empty_password_of_the_page, 78, "holds no password"),
        (missing_password_of_the_page, 78, "cannot be read: No such file"),
        (state_in_a_file, 73, "is not a folder"),
        (half_restored, 73, "a restore was interrupted"),
    ],
)
def test_check_refuses_what_run_refuses(
    tmp_path: Path,
    certificates: Certificates,
    fault: Callable[[Path, Certificates], str],
    code: int,
    words: str,
) -> None:
    text = '[upstream]\nurl = "mqtts://127.0.0.1:1"\n' + fault(tmp_path, certificates)
    if "[gateway]" not in text:
        text += f'[gateway]\nstate_dir = "{tmp_path / "state"}"\n'
    (tmp_path / "c.toml").write_text(text)
    checked = tidegate_here("check", "c.toml", folder=tmp_path)
    assert (checked.returncode, checked.stdout) == (code, "")
    (sentence,) = checked.stderr.splitlines()
    assert words in sentence
    options = ("--set", "udp.0.listen=127.0.0.1:0", "--set", "admin.listen=", "--no-wait")
    ran = tidegate("run", "--config", "c.toml", *options, folder=tmp_path)
    assert ran.returncode == code
    assert ran.stderr.splitlines()[-1].endswith(sentence)


def test_json_has_the_key_and_the_sentence(tmp_path: Path) -> None:
    (tmp_path / "c.toml").write_text('[upstream]\nurl = "mqtts://b"\nca_file = "none.pem"\n')
    done = tidegate_here("check", "c.toml", "--json", folder=tmp_path)
    assert (done.returncode, done.stderr) == (78, "")
    (problem,) = json.loads(done.stdout)["problems"]
    assert (problem["source"], problem["key"]) == ("c.toml", "upstream.ca_file")
    assert problem["message"] == "ca_file none.pem does not exist"


@pytest.mark.skipif(os.geteuid() != 0, reason="root alone can be another user")
def test_a_file_that_may_not_be_read_is_refused(tmp_path: Path) -> None:
    secret = tmp_path / "secret"
    secret.write_text("tide")
    secret.chmod(0)
    text = f'[upstream]\nusername = "u"\npassword_file = "{secret}"\n'
    (tmp_path / "c.toml").write_text(text)
    settings = load(tmp_path / "c.toml", environment={}, overrides=()).settings
    tmp_path.chmod(0o755)
    os.seteuid(65534)
    try:
        refusals = []
        for read in (read_credentials, refuse_unusable):
            with pytest.raises(LinkError) as raised:
                read(settings)
            refusals.append(str(raised.value))
    finally:
        os.seteuid(0)
    assert refusals[0] == refusals[1]
    assert "password_file" in refusals[0]
    assert "Permission denied" in refusals[0]


def test_what_systemd_has_not_handed_over_is_read_where_it_is_kept_or_left_out(
    tmp_path: Path, certificates: Certificates, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The command is typed beside the service, which alone has its credentials."""
    monkeypatch.setattr(credential, "STORE", tmp_path / "store")
    monkeypatch.delenv("CREDENTIALS_DIRECTORY", raising=False)
    (tmp_path / "store").mkdir()
    (tmp_path / "c.toml").write_text(
        f'[upstream]\nurl = "mqtts://b"\ncert_file = "{certificates.client}"\n'
        'key_file = "credential:tidegate-test.key"\n'
    )
    settings = load(tmp_path / "c.toml", environment={}, overrides=()).settings
    refuse_unusable(settings)
    kept = tmp_path / "store" / "tidegate-test.key"
    kept.write_text(certificates.key(certificates.client).read_text())
    refuse_unusable(settings)
    kept.write_text(certificates.key(certificates.server).read_text())
    with pytest.raises(LinkError, match="does not belong to cert_file"):
        refuse_unusable(settings)
