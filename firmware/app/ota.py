"""A new application over the air: fetched in parts over many wakes, checked, put in the other slot.

- `.../set/update` has a manifest: which number the application has, how long its image is, its
  SHA-256, and an HMAC-SHA-256 of that with the node's `update_key`. Without a key, with a wrong
  one, and for a number that is not higher than the one that runs, nothing is done.
- The image is asked for in runs of parts, from where the file ends; a power cut costs one run.
- When its SHA-256 is right it is unpacked into the other slot, read back, and put on trial
  (`loader/slots.py`), over what is there: files that it does not have stay. An image that was
  rolled back is not tried again. One on trial fetches nothing: the other slot is what it falls
  back to.

Manifest, big-endian: b"U", format 1, number, bytes, SHA-256, HMAC-SHA-256 of all before it.
Image: b"TGI1", number of files; for each the length of its name, its name, its size, its bytes.
Question: b"C", four bytes of the SHA-256, from where, how many parts. Each answer: the same five
bytes, from where, PART_OCTETS or what is left.

Limits: IMAGE_OCTETS_MAX. An image that came whole and is not what the manifest says, or for which
there is no room, is fetched DAMAGED_MAX times.
"""

from struct import calcsize, pack, unpack_from

from .version import NUMBER

try:
    from micropython import const
except ImportError:
    from ..mqttsn.cpython import const

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable

    from ..loader.files import Files
    from ..loader.slots import Slots
    from .link import Link

IMAGE_OCTETS_MAX = 256 * 1024
PART_OCTETS = 192
PARTS_OF_A_RUN = 12
DAMAGED_MAX = 3
ANSWER_MS = 3_000  # without a part that fits: nobody is there

PATH = "/update"
IMAGE_PATH = "/update.img"

_MANIFEST = const(">2sII32s32s")
_MANIFEST_MARK = b"U\x01"
_SIGNED_OCTETS = const(42)
_MANIFEST_OCTETS = const(74)
_ANSWER = const(">B4sI")
_QUESTION = const(">B4sIB")
_PART = const(0x43)  # C


class Update:
    def __init__(self, files: "Files", slots: "Slots", key: bytes) -> None:
        """`key`: none refuses every update."""
        self.number = 0
        self.said = ""  # what becomes of it
        self._files = files
        self._slots = slots
        self._key = key
        self._digest = b""  # of the image that is wanted; nothing: none is
        self._octets = self._at = self._damaged = 0  # of it; of that in the flash; times
        # Parts, because a heap with an update in it has no 2 KiB in one piece.
        self._run: list[bytes] = []
        self._run_octets = 0
        kept = files.load(PATH) or b"\0"
        self._manifest = kept[:-1]
        self._damaged = kept[-1]
        if self._manifest:
            self._take()
            self._at = self._octets_there()
        if not self._digest:
            self._forget_image()

    # For the node

    @property
    def is_wanted(self) -> bool:
        return bool(self._digest)

    @property
    def is_possible(self) -> bool:
        return bool(self._key)

    def offered(self, manifest: bytes) -> None:
        """Raises OSError when the flash does not take it."""
        if manifest == self._manifest:
            return
        self._manifest = manifest
        self._damaged = 0
        self._take()
        self._forget_image()
        if self.said:  # it does not come again: what was refused is told until something else comes
            self._save()
        else:
            self._files.forget(PATH)

    def fetch(self, link: "Link", alive: "Callable[[], object]") -> bool:
        """What there is time for; whether the new application is on trial from the next boot on.

        `alive` is called while it works at the flash, which takes seconds.

        Raises OSError when the network or the flash fails: what is there stays there.
        """
        link.on_answer = self._heard
        while self._at < self._octets:
            wanted = min(PARTS_OF_A_RUN * PART_OCTETS, self._octets - self._at)
            self._run, self._run_octets = [], 0
            parts = -(-wanted // PART_OCTETS)
            link.ask(pack(_QUESTION, _PART, self._digest[:4], self._at, parts))
            try:
                is_there = link.wait(lambda: self._run_octets >= wanted, ANSWER_MS)  # noqa: B023
            finally:
                self._keep_run()
            if not is_there:
                self.said = f"fetching {self.number}: nobody answers"
                return False
        return self._install(alive)

    # The manifest

    def _take(self) -> None:
        """It is wanted, or nothing is; `said` tells why."""
        self._digest = b""
        manifest = self._manifest
        self.said = "refused: no manifest" if manifest else ""
        if len(manifest) != _MANIFEST_OCTETS or manifest[:2] != _MANIFEST_MARK:
            return
        _, self.number, octets, digest, told = unpack_from(_MANIFEST, manifest)
        self.said = ""
        if self.number <= NUMBER:
            return
        self.said = f"refused {self.number}: "
        if not self._key or _signature(self._key, manifest) != told:
            self.said += "wrong key"
        elif not 0 < octets <= IMAGE_OCTETS_MAX:
            self.said += "too long"
        elif digest[: len(self._slots.tried)] == self._slots.tried:
            self.said += "was rolled back"
        elif self._damaged >= DAMAGED_MAX:
            self.said += "was damaged, or there is no room"
        else:
            self.said = f"fetching {self.number}"
            self._octets, self._digest = octets, digest

    def _save(self) -> None:
        self._files.save(PATH, self._manifest + bytes((self._damaged,)))

    # The image

    def _heard(self, answer: memoryview) -> None:
        start = calcsize(_ANSWER)
        if len(answer) <= start:
            return
        kind, digest, at = unpack_from(_ANSWER, answer)
        if (kind, digest, at) == (_PART, self._digest[:4], self._at + self._run_octets):
            self._run.append(bytes(answer[start : start + PART_OCTETS]))
            self._run_octets += len(self._run[-1])

    def _keep_run(self) -> None:
        if self._run:
            with self._files.open(IMAGE_PATH, "ab") as file:
                for part in self._run:
                    file.write(part)
            self._run, self._run_octets = [], 0
        self._at = self._octets_there()

    def _octets_there(self) -> int:
        try:
            with self._files.open(IMAGE_PATH, "rb") as file:
                octets: int = file.seek(0, 2)
        except OSError:
            return 0
        return octets

    def _forget_image(self) -> None:
        try:
            self._files.remove(IMAGE_PATH)
        except OSError:
            pass  # there is none
        self._at = 0

    def _install(self, alive: "Callable[[], object]") -> bool:
        from .unpacking import digest_of, unpack_image

        try:
            with self._files.open(IMAGE_PATH, "rb") as image:
                if digest_of(image) == self._digest:
                    image.seek(0)
                    unpack_image(self._files, image, "/" + self._slots.other, alive)
                    self._slots.switch(self._digest)
                    return True
        except (OSError, ValueError, IndexError):
            pass  # counted as what else is wrong with it
        self._damaged += 1
        self._forget_image()
        self._save()
        self._take()
        return False


def _signature(key: bytes, manifest: bytes) -> bytes:
    from .unpacking import hmac_sha256

    return hmac_sha256(key, manifest[:_SIGNED_OCTETS])
