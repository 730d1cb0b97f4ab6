"""The files of `tests/golden/written_before.tar.xz`: a state folder as revision 3a10f64 left it.

That revision was given the calls of `tests/storage/journal/fixed_journal.py`, the rows of
`tests/storage/state/examples.py` and the entries of `tests/presence/test_retained_ledger.py`, and
ended as a power cut ends it. Never written again: gateways in the field have such files.
"""

from __future__ import annotations

import tarfile
from pathlib import Path

_ARCHIVE = Path(__file__).parents[1] / "golden" / "written_before.tar.xz"


def written_before(folder: Path, prefix: str = "") -> Path:
    """The files whose names begin with the prefix, in this folder, which is returned."""
    with tarfile.open(_ARCHIVE) as archive:
        members = [each for each in archive if each.isfile() and each.name.startswith(prefix)]
        for member in members:
            file = archive.extractfile(member)
            assert file is not None
            target = folder / member.name
            target.parent.mkdir(parents=True, exist_ok=True)
            target.write_bytes(file.read())
    assert members, f"nothing begins with {prefix!r}"
    return folder
