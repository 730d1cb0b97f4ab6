"""`python -m tests.docs` says how many blocks of the documents are tried in which way; with the
name of a page, each block of it.
"""

from __future__ import annotations

import sys
from collections import Counter

from tests.docs.blocks import all_blocks
from tests.docs.kinds import IN_ROOT, Kind, kind_of

_HOW = dict.fromkeys(IN_ROOT, "run") | {Kind.SHAPE: "in form", Kind.SAID: "in form"}


def main(names: list[str]) -> None:
    blocks = [block for block in all_blocks() if not names or block.page in names]
    lines = [f"{each.where:<32}{kind_of(each):<12}{each.reason}" for each in blocks if names]
    counted = Counter(map(kind_of, blocks)).most_common()
    lines += [f"{count:>4}  {kind:<12}{_HOW.get(kind, 'read')}" for kind, count in counted]
    sys.stdout.write("\n".join([*lines, f"{len(blocks):>4}  in all\n"]))


if __name__ == "__main__":
    main(sys.argv[1:])
