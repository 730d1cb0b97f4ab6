"""Every block of README and docs/ is run, or read by what reads such a file; what needs a board or
another machine is tried in form, with a reason.

`python -m tests.docs` counts them by kind.
"""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from gateway.admin.metrics.exposition import Metrics
from tests.admin.example import NUMBERS, eventful_news
from tests.docs import files, pages, root, shapes
from tests.docs.blocks import REPOSITORY, Block, all_blocks, documents, spans_in
from tests.docs.commands import commands_in, faults_of, faults_of_script, script_of
from tests.docs.kinds import IN_ROOT, Kind, UnknownBlockError, kind_of

BLOCKS = all_blocks()
EXAMPLES = REPOSITORY / "docs" / "examples"
_SAID = re.compile(
    r"(?:\$ )?(?:sudo (?:-u \S+ )?)?(?:tidegate|make|\.venv/bin/python -m|python -m) .*"
)
_EXPRESSION = re.compile(r"tidegate_\w+")


@pytest.fixture(scope="module", autouse=True)
def _begun(request: pytest.FixtureRequest) -> None:
    """The pages of the blocks that are asked for, together."""
    asked = (getattr(item, "callspec", None) for item in request.session.items)
    blocks = [spec.params["block"] for spec in asked if spec and "block" in spec.params]
    pages_run = dict.fromkeys(block.page for block in blocks if _is_run(block))
    if pages_run and root.why_not() is None:
        pages.begin(pages_run)


def _is_run(block: object) -> bool:
    try:
        return isinstance(block, Block) and kind_of(block) in IN_ROOT
    except UnknownBlockError:
        return False


@pytest.mark.timeout(400)
@pytest.mark.parametrize("block", BLOCKS, ids=lambda block: block.where)
def test_a_block_is_right(block: Block) -> None:
    kind = kind_of(block)
    try:
        fault = _fault_of(block, kind)
    except files.SkippedError as reason:
        pytest.skip(f"not tried: {reason}")
    assert not fault, f"{block.where}: {fault}"


def _fault_of(block: Block, kind: Kind) -> str | None:
    if kind in (Kind.SHAPE, Kind.SAID):
        return "\n".join(shapes.faults_of(block))
    if kind in (Kind.SHELL, Kind.CONSOLE) and (faults := [*faults_of_script(script_of(block))]):
        return "\n".join(faults)
    if kind in (Kind.PYTHON, Kind.MICROPYTHON) and (fault := files.python_fault(block.text)):
        return fault
    if kind not in IN_ROOT:
        return files.fault_of(block, kind)
    if reason := root.why_not():
        raise files.SkippedError(reason)
    for client in re.findall(r"\bmosquitto_(?:pub|sub|rr)\b", block.text):
        files.path_of(client)
    return pages.fault_of(block)


@pytest.mark.parametrize("path", documents(), ids=lambda path: path.name)
def test_what_a_sentence_says_to_type_can_be_typed(path: Path) -> None:
    faults = [
        fault
        for span in spans_in(path.read_text())
        if _SAID.fullmatch(span) and not re.search(r"\.\.\.|[|<>&]|: |make it", span)
        for command in commands_in(span.removeprefix("$ "))
        if len(command) > 1 and _is_whole(command)
        for fault in faults_of(["python3" if word == "python" else word for word in command])
    ]
    assert faults == []


def _is_whole(command: list[str]) -> bool:
    """In a sentence a verb may stand without what it needs; its options are right all the same."""
    return any(word.startswith("--") for word in command)


def expressions() -> list[str]:
    text = (REPOSITORY / "docs" / "metrics.md").read_text().split("## The gateway")[0]
    return [
        span for span in spans_in(text) if (_EXPRESSION.search(span) and " " in span) or "(" in span
    ]


def test_each_expression_of_an_alert_is_one() -> None:
    found = expressions()
    assert len(found) >= 15
    try:
        faults = {each: fault for each in found if (fault := files.expression_fault(each))}
    except files.SkippedError as reason:
        pytest.skip(f"not tried: {reason}")
    assert faults == {}


_FILE_TAGS = {".toml": "toml", ".yaml": "yaml", ".yml": "yaml", ".json": "json", ".conf": "conf",
              ".service": "ini", ".py": "python"}  # fmt: skip


@pytest.mark.parametrize(
    "path",
    [path for path in sorted(EXAMPLES.rglob("*")) if path.suffix in _FILE_TAGS],
    ids=lambda path: str(path.relative_to(EXAMPLES)),
)
def test_a_file_of_the_examples_is_right(path: Path) -> None:
    name = str(path.relative_to(REPOSITORY))
    text = path.read_text()
    said = re.match(r"(?:#|//) block: (\w+)(?:, (.*))?\n", text)
    block = Block(page=name, line=1, tag=_FILE_TAGS[path.suffix], text=text,
                  kind=said[1] if said else "", reason=said[2] or "" if said else "")  # fmt: skip
    kind = kind_of(block)
    fault = files.python_fault(text) if path.suffix == ".py" else None
    try:
        fault = fault or (None if kind in IN_ROOT | {Kind.SHAPE} else files.fault_of(block, kind))
    except files.SkippedError as reason:
        pytest.skip(f"not tried: {reason}")
    assert not fault, fault


def test_what_metrics_says_is_what_promtool_takes() -> None:
    exposed = Metrics(lambda: NUMBERS, eventful_news(), "0.1.0").render()[0].decode()
    try:
        assert files.metrics_fault(exposed) is None
    except files.SkippedError as reason:
        pytest.skip(f"not tried: {reason}")
