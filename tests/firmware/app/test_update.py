"""Updates on a flash that loses its power at every operation, and manifests that are not to be
believed. The OTA server's answers come at once; over the air it is tested on boards."""

from __future__ import annotations

import itertools
import random
from collections.abc import Callable

import pytest

from firmware import image as made
from firmware.app.ota import DAMAGED_MAX, IMAGE_PATH, PART_OCTETS, PATH, Update
from firmware.app.unpacking import hmac_sha256
from firmware.loader.slots import Slots
from firmware.ota_server import OtaServer
from firmware.ota_server import Update as Offered
from tests.firmware.app.conftest import FlashMaker
from tests.firmware.app.fragile_flash import FragileFlash, PowerCutError
from tests.firmware.app.simulated_flash import SimulatedFlash

KEY = bytes(range(16))
FILES = {f"app/{name}.mpy": random.Random(name).randbytes(700) for name in "xyz"} | {"app/s/d": b""}


class OtaServerLink:
    """Has what a node's link has, and the OTA server at its other end."""

    def __init__(self, server: OtaServer, *, seed: int = 1, loss: float = 0.0) -> None:
        self.server = server
        self.on_answer: Callable[[memoryview], None] | None = None
        self.asked = 0
        self._dice = random.Random(seed)
        self._loss = loss

    def ask(self, question: bytes) -> None:
        self.asked += 1
        assert self.on_answer is not None
        for answer in self.server.answers(question, 0):
            for _ in range(self._dice.choice((1, 1, 2))):
                if self._dice.random() >= self._loss:
                    self.on_answer(memoryview(answer))

    def wait(self, is_over: Callable[[], bool], limit_ms: int) -> bool:
        return is_over()


def offered(number: int = 2, key: bytes = KEY, files: dict[str, bytes] | None = None) -> Offered:
    content = made.image(FILES if files is None else files)
    manifest = made.manifest(number, content, key)
    return Offered(content, manifest, number, manifest[10:42])


def a_flash(**others: int) -> SimulatedFlash:
    flash = SimulatedFlash(**others)
    flash.folders |= {"/a"}
    return flash


def fetched(update: Update, link: OtaServerLink) -> bool:
    return update.fetch(link, lambda: None)  # type: ignore[arg-type]


def test_an_update_is_fetched_in_runs_and_put_on_trial() -> None:
    flash, offer = a_flash(), offered()
    update, link = Update(flash, Slots(flash), KEY), OtaServerLink(OtaServer(offer))
    update.offered(offer.manifest)
    assert (update.is_wanted, update.said) == (True, "fetching 2")
    assert fetched(update, link)
    assert link.asked == -(-len(offer.image) // (12 * PART_OCTETS))
    assert flash.contents("/b") == FILES
    slots = Slots(flash)
    assert (slots.name, slots.is_trial, slots.tried) == ("b", True, offer.digest[:8])


def cut_somewhere(flash: FragileFlash, offer: Offered, cut_in: int) -> bool:
    """An update whose power goes; whether it did. What is there then is one whole application."""
    Update(flash, Slots(flash), KEY).offered(offer.manifest)
    flash.cut_in(cut_in)
    try:
        assert fetched(Update(flash, Slots(flash), KEY), OtaServerLink(OtaServer(offer)))
        is_cut = False
    except PowerCutError:
        is_cut = True
    flash.restart()
    if not Slots(flash).is_trial:
        assert Slots(flash).name == "a"
        update = Update(flash, Slots(flash), KEY)
        while not fetched(update, OtaServerLink(OtaServer(offer))):
            assert update.is_wanted
    assert flash.contents("/b") == FILES
    assert (Slots(flash).name, Slots(flash).is_trial) == ("b", True)
    return is_cut


def cut_everywhere(new_flash: FlashMaker, seeds: range) -> int:
    """At each operation of an update, for each seed; at how many points."""
    points = 0
    for seed in seeds:
        for cut_in in itertools.count():
            flash = new_flash(seed)
            flash.mkdir("/a")
            if not cut_somewhere(flash, offered(), cut_in):
                break
            points += 1
    return points


def test_wherever_the_power_goes_there_is_one_whole_application(new_flash: FlashMaker) -> None:
    assert cut_everywhere(new_flash, range(2)) > 40


@pytest.mark.soak
def test_at_a_thousand_points_there_is_one_whole_application(new_flash: FlashMaker) -> None:
    assert cut_everywhere(new_flash, range(2, 52)) > 1000


def test_a_network_that_loses_and_copies_costs_time_only() -> None:
    flash, offer = a_flash(), offered()
    update = Update(flash, Slots(flash), KEY)
    update.offered(offer.manifest)
    link = OtaServerLink(OtaServer(offer), loss=0.3)
    for _ in range(200):
        if fetched(update, link):
            break
    assert flash.contents("/b") == FILES


def test_nobody_who_answers_is_told_and_what_is_there_stays() -> None:
    flash, offer = a_flash(), offered()
    update = Update(flash, Slots(flash), KEY)
    update.offered(offer.manifest)
    assert not fetched(update, OtaServerLink(OtaServer(None)))
    assert update.said == "fetching 2: nobody answers"


@pytest.mark.parametrize(
    ("manifest", "said"),
    [
        (b"", ""),
        (b"U\x02" + offered().manifest[2:], "refused: no manifest"),
        (offered().manifest[:-1], "refused: no manifest"),
        (offered(key=b"other" * 4).manifest, "refused 2: wrong key"),
        (offered().manifest[:-1] + b"\0", "refused 2: wrong key"),
        (offered(number=1).manifest, ""),
    ],
)
def test_a_manifest_that_is_not_ours_or_not_newer_changes_nothing(
    manifest: bytes, said: str
) -> None:
    flash = a_flash()
    update = Update(flash, Slots(flash), KEY)
    update.offered(manifest)
    assert (update.is_wanted, update.said) == (False, said)
    assert set(flash.files) == ({PATH} if said else set())


def test_what_was_refused_is_told_after_each_sleep_until_it_is_withdrawn() -> None:
    flash = a_flash()
    Update(flash, Slots(flash), KEY).offered(offered(key=b"other" * 4).manifest)
    for _ in range(2):
        update = Update(flash, Slots(flash), KEY)
        assert (update.is_wanted, update.said) == (False, "refused 2: wrong key")
    update.offered(b"")
    assert Update(flash, Slots(flash), KEY).said == ""
    assert flash.files == {}


def test_with_the_right_key_what_was_refused_is_wanted() -> None:
    flash, key = a_flash(), b"other" * 4
    Update(flash, Slots(flash), KEY).offered(offered(key=key).manifest)
    assert Update(flash, Slots(flash), key).is_wanted


def test_a_manifest_that_is_withdrawn_ends_the_fetching() -> None:
    flash = a_flash()
    update = Update(flash, Slots(flash), KEY)
    update.offered(offered().manifest)
    update.offered(b"")
    assert (update.is_wanted, update.said) == (False, "")
    assert flash.files == {}


def test_every_octet_of_a_manifest_is_signed() -> None:
    flash, whole = a_flash(), offered().manifest
    for at in range(len(whole)):
        damaged = bytearray(whole)
        damaged[at] ^= 1
        update = Update(flash, Slots(flash), KEY)
        update.offered(bytes(damaged))
        assert not update.is_wanted


def test_without_a_key_nothing_is_taken() -> None:
    flash = a_flash()
    update = Update(flash, Slots(flash), b"")
    update.offered(offered(key=b"").manifest)
    assert update.said == "refused 2: wrong key"


def test_an_image_that_is_not_what_was_signed_is_given_up_for_good() -> None:
    flash, offer = a_flash(), offered()
    wrong = Offered(offer.image[:-1] + b"!", offer.manifest, 2, offer.digest)
    for _ in range(DAMAGED_MAX):
        update = Update(flash, Slots(flash), KEY)
        update.offered(offer.manifest)
        assert update.is_wanted
        assert not fetched(update, OtaServerLink(OtaServer(wrong)))
        assert IMAGE_PATH not in flash.files
    update = Update(flash, Slots(flash), KEY)
    update.offered(offer.manifest)
    assert update.said == "refused 2: was damaged, or there is no room"
    assert Slots(flash).name == "a"
    update.offered(offered(3).manifest)
    assert fetched(update, OtaServerLink(OtaServer(offered(3))))


def test_a_flash_without_room_gives_up_too() -> None:
    flash, offer = a_flash(octets_max=len(offered().image) + 300), offered()
    update = Update(flash, Slots(flash), KEY)
    update.offered(offer.manifest)
    for _ in range(DAMAGED_MAX):
        assert not fetched(update, OtaServerLink(OtaServer(offer)))
    assert not update.is_wanted
    assert Slots(flash).name == "a"


@pytest.mark.parametrize("name", ["../main.py", "/main.py", "app//x", "app/../../x"])
def test_a_file_outside_its_slot_is_not_written(name: str) -> None:
    flash, offer = a_flash(), offered(files={name: b"x"})
    update = Update(flash, Slots(flash), KEY)
    update.offered(offer.manifest)
    assert not fetched(update, OtaServerLink(OtaServer(offer)))
    assert not any(path.endswith("main.py") for path in flash.files)


def test_one_that_was_rolled_back_is_not_tried_again() -> None:
    flash, offer = a_flash(), offered()
    update = Update(flash, Slots(flash), KEY)
    update.offered(offer.manifest)
    fetched(update, OtaServerLink(OtaServer(offer)))
    for _ in range(5):
        Slots(flash).booted(is_wake=False)
    update = Update(flash, Slots(flash), KEY)
    assert (update.is_wanted, update.said) == (False, "refused 2: was rolled back")
    assert IMAGE_PATH not in flash.files
    update.offered(offer.manifest)
    assert not update.is_wanted


def test_hmac_is_that_of_rfc_4231() -> None:
    assert hmac_sha256(b"Jefe", b"what do ya want for nothing?").hex() == (
        "5bdcc146bf60754e6a042426089575c75a003f089d2739839dec58b964ec3843"
    )
    key = b"\xaa" * 131
    text = b"Test Using Larger Than Block-Size Key - Hash Key First"
    assert hmac_sha256(key, text).hex() == (
        "60e431591ee0b67f0d8a26aacbf5b77f8e0bc6213728c5140546040f0ee37f54"
    )


@pytest.mark.parametrize("question", [b"", b"T", b"T1234+", b"C12345678", b"X" * 10])
def test_the_ota_server_answers_no_question_that_is_none(question: bytes) -> None:
    assert OtaServer(offered()).answers(question, 0) == []


def test_the_ota_server_has_limits() -> None:
    offer = offered()
    server = OtaServer(offer)
    assert len(server.answers(b"C" + offer.digest[:4] + bytes(4) + b"\xff", 0)) <= 32
    assert server.answers(b"C" + offer.digest[:4] + b"\xff" * 5, 0) == []
    assert server.answers(b"T1234", 1_800_000_000_000)[0][5:] == (1_800_000_000_000).to_bytes(
        8, "big"
    )
    assert [server.offer(node) is not None for node in ("n", "n", "m")] == [True, False, True]
