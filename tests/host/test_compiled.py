"""The compiled modules: taken whole and fresh, or not at all; and they are what runs.

That they do what the sources do is tested by the tests of the sources, with TIDEGATE_COMPILED=yes
(Makefile), and by all that run the daemon.
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from contextlib import suppress
from importlib import import_module
from pathlib import Path
from types import ModuleType

import pytest

from gateway.host import compiled
from gateway.host.compiled import LIST, PACKAGE, SUFFIX, Form, digest, folder_of, list_text, use
from tests.support.ci_scripts import ci_script

# While tests are collected: once distutils is loaded from Python's own library, setuptools, which
# .ci/compile.py needs, refuses to be loaded.
with suppress(ImportError):
    import_module("setuptools")

REPOSITORY = Path(__file__).resolve().parents[2]
LIBRARY = "0123__mypyc"
# As `tidegate run` begins.
ASKED = """
import os
from gateway.host import compiled
form = compiled.use(os.environ)
from gateway.app import daemon
from gateway.core import engine
from gateway.frames import fields
print(form.name, engine.__file__, fields.__file__, daemon.__file__, sep="\\n")
"""
# A frozen class of the compiled ones, made by an `__init__` that sets what it has.
FROZEN = """
import os
from gateway.host import compiled
print(compiled.use(os.environ).name)
from gateway.core.effects import Peer
peer = Peer(1, b"a")
try:
    peer.link = 2
except AttributeError as error:
    print(type(error).__name__)
print(peer == Peer(1, b"a") and hash(peer) == hash(Peer(1, b"a")))
"""
DATACLASSES = """@dataclass(eq=False)
class Plain:
    KIND: ClassVar[int] = 12
    name: str
    octets: int = field(default=7)


after = 1
"""
WRITTEN_OUT = "    def __init__(self, "


@pytest.fixture
def package(tmp_path: Path) -> Path:
    """One of three modules, two of them with files in place of what a compiler makes."""
    package = tmp_path / "gateway"
    (package / "session").mkdir(parents=True)
    sources = {
        "gateway.hub": package / "hub.py",
        "gateway.session.testament": package / "session/testament.py",
    }
    folder = folder_of(package)
    folder.mkdir(parents=True)
    for name, source in sources.items():
        source.write_text(f"# {name}\n")
        (folder / (name + SUFFIX)).write_text("a stub")
    (folder / (LIBRARY + SUFFIX)).write_text("no library")
    (package / "plain.py").write_text("# imported by what is compiled\n")
    digests = {
        str(path.relative_to(tmp_path)): digest(path)
        for path in (*sources.values(), package / "plain.py")
    }
    (folder / LIST).write_text(list_text([LIBRARY, *sources], digests))
    return package


def asked(package: Path) -> Form:
    """And the list of finders is as it was."""
    before = list(sys.meta_path)
    form = use({}, package)
    assert sys.meta_path == before
    return form


def test_without_any_the_sources_run(package: Path) -> None:
    shutil.rmtree(folder_of(package).parent)
    assert asked(package) is Form.ABSENT


def test_those_for_another_python_are_not_for_this_one(package: Path) -> None:
    folder_of(package).rename(folder_of(package).with_name("cpython-399-x86_64-linux-gnu"))
    assert asked(package) is Form.ABSENT


def test_whoever_wants_the_sources_gets_them(package: Path) -> None:
    assert use({compiled.VARIABLE: "no"}, package) is Form.UNWANTED


@pytest.mark.parametrize(
    "text", ["# gateway.session.testament \n", "", "# gateway.session.testaments"]
)
def test_one_changed_source_is_enough(package: Path, text: str) -> None:
    (package / "session/testament.py").write_text(text)
    assert asked(package) is Form.STALE


def test_one_that_is_only_imported_by_compiled_ones_counts_too(package: Path) -> None:
    (package / "plain.py").write_text("# of another type now\n")
    assert asked(package) is Form.STALE


def test_a_source_that_is_gone_is_a_change(package: Path) -> None:
    (package / "hub.py").unlink()
    assert asked(package) is Form.STALE


def test_none_is_taken_when_one_source_runs_already(
    package: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "gateway.hub", ModuleType("gateway.hub"))
    assert asked(package) is Form.LATE


def test_a_missing_stub_is_noticed_before_anything_is_taken(package: Path) -> None:
    (folder_of(package) / ("gateway.hub" + SUFFIX)).unlink()
    assert asked(package) is Form.BROKEN


def test_a_library_that_is_none_is_not_taken(package: Path) -> None:
    assert asked(package) is Form.BROKEN


@pytest.mark.parametrize("octets", [b"", b"\xff\xfe", b"lib\ngateway.hub\n", b"lib\na b c\n"])
def test_a_list_that_cannot_be_read_is_none(package: Path, octets: bytes) -> None:
    (folder_of(package) / LIST).write_bytes(octets)
    assert asked(package) is Form.BROKEN


def test_each_form_says_what_it_is() -> None:
    assert [form.value for form in Form if form.value.startswith("compiled")] == ["compiled"]
    assert all("make compile" in form.value for form in (Form.STALE, Form.BROKEN))


# What is compiled


@pytest.fixture(scope="module")
def compiling() -> ModuleType:
    pytest.importorskip("mypyc", reason="not run: mypyc has no build for this machine")
    return ci_script("compile")


@pytest.fixture(scope="module")
def preparing() -> ModuleType:
    return ci_script("for_mypyc")


def places(text: str) -> list[tuple[int, str]]:
    """Where functions and classes begin, but those that were written out."""
    lines = enumerate(text.split("\n"))
    return [
        (at, line)
        for at, line in lines
        if re.match(r" *(async def|def|class) ", line) and not line.startswith(WRITTEN_OUT)
    ]


def test_the_sources_keep_their_lines(compiling: ModuleType, preparing: ModuleType) -> None:
    modules = compiling.modules()
    assert {
        "gateway.core.engine",
        "gateway.core.session.session",
        "gateway.transports.udp.link",
    } <= set(modules)
    for source in modules.values():
        text = source.read_text()
        assert places(preparing.prepared(text)) == places(text)


@pytest.mark.parametrize("words", ["eq=False", "frozen=True", "frozen=True, slots=True"])
def test_the_init_of_a_dataclass_is_written_out(preparing: ModuleType, words: str) -> None:
    lines = preparing.rewritten(DATACLASSES.replace("eq=False", words)).split("\n")
    assert lines[0] == f"@dataclass({words}, init=False)"
    assert lines[2].strip() == "pass"
    assert lines[5:7] == [
        "    def __init__(self, name: str, octets: int = 7) -> None: "
        "self.name = name; self.octets = octets  # type: ignore",
        "Plain.KIND = 12",
    ]


def test_new_values_for_each_object_stay_with_dataclass(preparing: ModuleType) -> None:
    text = DATACLASSES.replace("field(default=7)", "field(default_factory=int)")
    changed = preparing.rewritten(text)
    assert "__init__" not in changed
    assert "Plain.KIND = 12" in changed


@pytest.mark.parametrize(
    "text",
    [
        DATACLASSES.replace("\n\n\n", "\n"),
        DATACLASSES.replace("(eq=False)", "(eq = False)"),
        DATACLASSES.replace("eq=False", "kw_only=True"),
        DATACLASSES.replace("@dataclass", "@final\n@dataclass"),
        DATACLASSES + "\n\n@dataclass\nclass Wider(Plain):\n    more: int\n\n",
    ],
)
def test_what_cannot_be_rewritten_is_refused(preparing: ModuleType, text: str) -> None:
    with pytest.raises(preparing.CompileError):
        preparing.rewritten(text)


def test_a_class_without_cycles_is_marked_in_the_line_before_it(preparing: ModuleType) -> None:
    text = "from __future__ import annotations\n\nimport x\n\n\n@dataclass\nclass Peer:\n    a: int"
    marked = preparing.prepared(text).split("\n")
    assert marked[1].startswith("if TYPE_CHECKING: from mypy_extensions")
    assert marked[4:7] == [
        "@mypyc_attr(acyclic=True)",
        "@dataclass(init=False)",
        "class Peer:",
    ]
    assert "mypyc_attr(" not in preparing.prepared(text.replace("Peer", "Other"))


KNOWN_TO_THE_COLLECTOR = """\
static void
{name}_dealloc({name}Object *self)
{{
    PyObject_GC_UnTrack(self);
    CPy_TRASHCAN_BEGIN(self, {name}_dealloc)
    {name}_clear((PyObject *)self);
    CPy_TRASHCAN_END(self)
    done: ;
}}
"""


def test_what_the_collector_does_not_know_is_let_go_of_at_once(preparing: ModuleType) -> None:
    known = KNOWN_TO_THE_COLLECTOR.format(name="known")
    unknown = KNOWN_TO_THE_COLLECTOR.format(name="unknown").replace(
        "    PyObject_GC_UnTrack(self);\n", ""
    )
    code, count = preparing.without_trashcan(f"int a;\n{unknown}\n{known}\n{unknown}int b;\n")
    at_once = "".join(line for line in unknown.splitlines(True) if "TRASHCAN" not in line)
    assert code == f"int a;\n{at_once}\n{known}\n{at_once}int b;\n"
    assert count == 2


def test_constants_are_told_but_for_limits_types_and_what_may_be_none(
    preparing: ModuleType,
) -> None:
    for line, wanted in (
        ("COPY_S = 90.0  # T_retry", "COPY_S: Final = 90.0  # T_retry"),
        ("_HEADS: dict[int, str] = {", "_HEADS: Final[dict[int, str]] = {"),
        ("_pack = Struct('H').pack", "_pack: Final = Struct('H').pack"),
        ("_VARINTS_MAX = 7", "_VARINTS_MAX: Final = 7"),
        ("RECENT_MAX = 16", "RECENT_MAX = 16"),
        ("OVERFLOW = 10", "OVERFLOW = 10"),
        ("_QUICK: int | None = None", "_QUICK: int | None = None"),
        ("Contents = int", "Contents = int"),
        ("__all__ = ()", "__all__ = ()"),
    ):
        text = line + ("}" if line.endswith("{") else "")
        assert preparing.with_constants(text).removesuffix("}") == wanted


def test_each_name_of_a_class_without_cycles_is_one(
    compiling: ModuleType, preparing: ModuleType
) -> None:
    texts = [preparing.prepared(source.read_text()) for source in compiling.modules().values()]
    marked = [
        name
        for text in texts
        for name in re.findall(r"\n@mypyc_attr\(acyclic=True\)\n(?:@.*\n)*class (\w+)", text)
    ]
    assert sorted(marked) == sorted(preparing.ACYCLIC)


def test_what_another_recipe_made_is_made_anew(
    compiling: ModuleType, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(compiling, "folder_of", lambda _package: tmp_path)
    assert not compiling.was_made_this_way()
    (tmp_path / compiling.MADE_BY).write_text(compiling.recipe())
    assert compiling.was_made_this_way()
    (tmp_path / compiling.MADE_BY).write_text(compiling.recipe() + "0")
    assert not compiling.was_made_this_way()


# What was compiled here


def running(repository: Path, environment: dict[str, str], program: str = ASKED) -> list[str]:
    done = subprocess.run(
        [sys.executable, "-c", program],
        cwd=repository,
        env={**os.environ, "PYTHONPATH": str(repository), **environment},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return done.stdout.splitlines()


@pytest.fixture
def form() -> Form:
    """Of this working copy, whatever this very process runs."""
    name, *_ = running(REPOSITORY, {compiled.VARIABLE: "yes"})
    form = Form[name]
    if form is not Form.COMPILED:
        pytest.skip(f"not run: {form.value}")
    return form


@pytest.mark.usefixtures("form")
def test_compiled_modules_run_and_all_others_do_as_well() -> None:
    _, engine, fields, daemon = running(REPOSITORY, {compiled.VARIABLE: "yes"})
    assert engine.endswith(SUFFIX)
    assert fields.endswith(SUFFIX)
    assert daemon == str(PACKAGE / "app" / "daemon.py")
    name, engine, fields, _ = running(REPOSITORY, {compiled.VARIABLE: "no"})
    assert (name, engine, fields) == (
        "UNWANTED",
        str(PACKAGE / "core" / "engine.py"),
        str(PACKAGE / "frames/fields.py"),
    )


def test_the_daemon_says_what_runs(form: Form, tmp_path: Path) -> None:
    (tmp_path / "state").touch()  # no folder: it says its first line, and ends
    settings = f"""
        gateway.state_dir = "{tmp_path / "state"}"
        upstream.url = "mqtt://127.0.0.1:1"
        udp = [{{ listen = "127.0.0.1:0" }}]
    """
    (tmp_path / "config.toml").write_text(settings)
    for wanted, said in (("yes", form.value), ("no", Form.UNWANTED.value)):
        done = subprocess.run(
            [sys.executable, "-m", "gateway", "run", "--config", tmp_path / "config.toml"],
            cwd=REPOSITORY,
            env={**os.environ, compiled.VARIABLE: wanted},
            capture_output=True,
            text=True,
            check=False,
        )
        assert f"({said})" in done.stderr.splitlines()[0]


DEEP = """
import os
from gateway.host import compiled
print(compiled.use(os.environ).name)
from gateway.core.topic_trie import TopicTree
for within in range(4):
    tree = TopicTree()
    for depth in range(1, 100):
        for name in "ab":
            tree.put("/".join([*["a"] * depth, name]), depth)
    for _ in range(within):
        tree = [tree]
    del tree
"""


@pytest.mark.usefixtures("form")
def test_topics_of_very_many_levels_are_let_go_of() -> None:
    """With Python's allocator that looks whether memory was written to where it is nothing's."""
    debugging = {compiled.VARIABLE: "yes", "PYTHONMALLOC": "debug"}
    assert running(REPOSITORY, debugging, DEEP) == ["COMPILED"]


@pytest.mark.usefixtures("form")
def test_what_was_edited_is_what_runs(tmp_path: Path) -> None:
    shutil.copytree(PACKAGE, tmp_path / "gateway")
    assert running(tmp_path, {compiled.VARIABLE: "yes"})[0] == "COMPILED"
    with (tmp_path / "gateway/core/session/session.py").open("a") as file:
        file.write("\n# changed\n")
    name, engine, *_ = running(tmp_path, {compiled.VARIABLE: "yes"})
    assert (name, engine) == ("STALE", str(tmp_path / "gateway/core/engine.py"))


@pytest.mark.usefixtures("form")
def test_frozen_ones_are_frozen_when_compiled() -> None:
    said = running(REPOSITORY, {compiled.VARIABLE: "yes"}, FROZEN)
    assert said == ["COMPILED", "FrozenInstanceError", "True"]
