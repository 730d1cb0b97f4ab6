"""The rules of this house that a machine can hold: each takes a tree and yields what breaks it.

They read files and never change them. A finding is one line: the place, what is wrong, and what
would be right. test_house.py asks them of this repository, and of small trees in which a
breach was planted.
"""

import ast
import re
import subprocess
import sys
import tomllib
from collections.abc import Iterator, Mapping
from pathlib import Path

from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

from tests.house.imports import imports_of

FILE_LINES_MAX = 700
SOURCE_SUFFIXES = {".py", ".sh", ".c", ".h", ".js", ".css"}

# What is written or drawn from the code, and the module that prints it.
GENERATED = {
    "docs/metrics.md": "gateway.admin.metrics.reference",
    "docs/examples/monitoring/alerts.yaml": "gateway.admin.metrics.alerts",
    "docs/configuration.md": "gateway.config.reference",
    "docs/states.svg": "gateway.core.session.states_drawing",
    "docs/conformance.md": "tests.conformance",
    "docs/guarantees.md": "tests.guarantees",
    "docs/messages.md": "tests.house.messages",
    "docs/openapi.json": "tests.house.openapi",
    "docs/structure.svg": "tests.house.structure_drawing",
}
LOCK = ".ci/requirements.lock"
GATEWAY_LOCK = ".ci/requirements-gateway.lock"
BUILD_LOCK = ".ci/requirements-build.lock"
LOCKED_EXTRAS = ("demo", "flash", "hil")
EXACT = re.compile(r"==[\w.+!]+")
SHA256 = re.compile(r"sha256:[0-9a-f]{64}")
AT_THE_TOP = {
    ".ci",
    ".containerignore",
    ".dockerignore",
    ".gitignore",
    "CHANGELOG.md",
    ".github",
    ".pre-commit-config.yaml",
    "CODE_OF_CONDUCT.md",
    "CONTRIBUTING.md",
    "Containerfile",
    "LICENSE",
    "Makefile",
    "README.md",
    "SECURITY.md",
    "docs",
    "firmware",
    "gateway",
    "hil",
    "pyproject.toml",
    "spark_ingest",
    "tests",
}
GENERATED_MARK = re.compile(r"\bby `?python3? -m ([\w.]+)")
PACKAGES = ("gateway", "spark_ingest")
RUN_AS_MODULE = re.compile(rf"python3? -m ((?:{'|'.join(PACKAGES)})[\w.]*)")
MARKDOWN_LINK = re.compile(r"\]\(([^)#\s]+)[^)]*\)|(?:src|href)=\"([^\"#]+)")

# Spelt with spaces, or these lines would break their own rule.
UNFINISHED = ("TO DO", "FIX ME", "X X X", "T B D", "W I P", "HA CK")
MACHINE_PATHS = ("work/", "root/", r"home/\w", r"Users/\w", r"tmp/\w")
REGISTRY_HOSTS = (
    "pypi org",
    "pythonhosted org",
    "piwheels org",
    "crates io",
    "npmjs org",
    "npmjs com",
    "proxy golang org",
    "maven org",
    "maven apache org",
    "docker io",
    "ghcr io",
    "deb debian org",
    "security debian org",
    "archive raspberrypi com",
)
FORBIDDEN_TEXT = {
    "unfinished work; finish it or open an issue": re.compile(
        rf"\b(?:{'|'.join(word.replace(' ', '') for word in UNFINISHED)})\b"
    ),
    "a path of one machine": re.compile(rf"(?<![\w.~}}/])/(?:{'|'.join(MACHINE_PATHS)})"),
    "a package registry's host; say the package's name": re.compile(
        rf"\b(?:{'|'.join(host.replace(' ', '[.]') for host in REGISTRY_HOSTS)})\b"
    ),
}


def tracked(root: Path) -> list[Path]:
    """The repository's files; of a tree that is none, all but what tools leave behind."""
    # The checkout may belong to another user than the one who runs the tests.
    command = ["git", "-c", "safe.directory=*", "-C", str(root), "ls-files", "-z"]
    if (root / ".git").exists():
        names = subprocess.run(command, capture_output=True, check=True).stdout.decode().split("\0")
    else:
        names = [str(path.relative_to(root)) for path in root.rglob("*") if is_ours(path, root)]
    return sorted(root / name for name in names if name and (root / name).is_file())


def is_ours(path: Path, root: Path) -> bool:
    left_behind = re.compile(r"\.(?!ci$).*|__pycache__|build|dist")
    return not any(left_behind.fullmatch(part) for part in path.relative_to(root).parts[:-1])


def text_of(path: Path) -> str:
    """Nothing for what is not text: a picture, a golden file in binary."""
    try:
        return path.read_bytes().decode()
    except UnicodeDecodeError:
        return ""


def long_files(root: Path) -> Iterator[str]:
    for path in tracked(root):
        if path.suffix in SOURCE_SUFFIXES:
            lines = len(path.read_text().splitlines())
            if lines > FILE_LINES_MAX:
                yield f"{path.relative_to(root)}: {lines} lines, at most {FILE_LINES_MAX}; split it"


def strangers_at_the_top(root: Path) -> Iterator[str]:
    for name in sorted({path.relative_to(root).parts[0] for path in tracked(root)} - AT_THE_TOP):
        yield f"{name}: not one of the folders and files that belong at the top; remove it"


def forbidden_text(root: Path) -> Iterator[str]:
    for path in tracked(root):
        for number, line in enumerate(text_of(path).splitlines(), start=1):
            for what, pattern in FORBIDDEN_TEXT.items():
                if found := pattern.search(line):
                    yield f"{path.relative_to(root)}:{number}: {found.group()!r} is {what}"


def modules_of(root: Path) -> dict[str, Path]:
    """Every module of ours by its dotted name; a package stands for its __init__.py."""
    modules = {}
    for path in (path for package in PACKAGES for path in (root / package).rglob("*.py")):
        parts = path.relative_to(root).with_suffix("").parts
        modules[".".join(parts[:-1] if parts[-1] == "__init__" else parts)] = path
    return modules


def named_in_strings(path: Path) -> Iterator[str]:
    """Names of modules that are looked up at run time: "gateway.cli.run", or "run" beside
    f"gateway.cli.{verb}"."""
    strings = [
        node.value
        for node in ast.walk(ast.parse(path.read_text(), str(path)))
        if isinstance(node, ast.Constant) and isinstance(node.value, str)
    ]
    prefix = re.compile(rf"(?:{'|'.join(PACKAGES)})[\w.]*\.")
    prefixes = [text for text in strings if prefix.fullmatch(text)]
    yield from strings
    yield from (prefix + text for prefix in prefixes for text in strings)


def entry_points(root: Path) -> set[str]:
    """The packages' own starts, the scripts of pyproject.toml, and what is documented to be run."""
    entries = {*(f"{package}.__main__" for package in PACKAGES), *GENERATED.values()}
    if (root / "pyproject.toml").exists():
        project = tomllib.loads((root / "pyproject.toml").read_text()).get("project", {})
        entries |= {target.split(":")[0] for target in project.get("scripts", {}).values()}
    for path in tracked(root):
        if path.suffix == ".md" or path.name == "Makefile":
            entries |= set(RUN_AS_MODULE.findall(text_of(path)))
    return entries


def with_packages(name: str) -> set[str]:
    parts = name.split(".")
    return {".".join(parts[:count]) for count in range(1, len(parts) + 1)}


def reachable(root: Path, modules: Mapping[str, Path]) -> set[str]:
    reached: set[str] = set()
    waiting = entry_points(root)
    while waiting:
        name = waiting.pop()
        fresh = (with_packages(name) & modules.keys()) - reached
        reached |= fresh
        for module in fresh:
            path = modules[module]
            waiting |= {used.module for used in imports_of(path, root)}
            waiting |= set(named_in_strings(path)) & modules.keys()
    return reached


def is_marker(path: Path) -> bool:
    """An __init__.py that says at most what its package is for."""
    body = ast.parse(path.read_text(), str(path)).body
    return path.name == "__init__.py" and all(
        isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant) for node in body
    )


def dead_files(root: Path) -> Iterator[str]:
    modules = modules_of(root)
    reached = reachable(root, modules)
    for name, path in sorted(modules.items()):
        if name not in reached and not is_marker(path):
            yield f"{path.relative_to(root)}: nothing started imports it; use it or remove it"
    package = [
        path for path in tracked(root) for name in PACKAGES if path.is_relative_to(root / name)
    ]
    for path in package:
        if path.suffix == ".py" or path.name == "py.typed":
            continue
        if not any(path.name in text_of(other) for other in package if other != path):
            yield f"{path.relative_to(root)}: no file of its package names it"


def unused_parts(root: Path, tree: str) -> Iterator[str]:
    """Of a tree that is not the gateway: modules that no file imports, names or documents."""
    sources = [path for path in tracked(root) if path.suffix == ".py"]
    imported = {used.module for path in sources for used in imports_of(path, root)}
    texts = "\n".join(text_of(path) for path in tracked(root) if path.suffix in (".md", ".json"))
    code = "\n".join(text_of(path) for path in sources)
    for path in sources:
        if not path.is_relative_to(root / tree) or is_marker(path):
            continue
        name = ".".join(path.relative_to(root).with_suffix("").parts)
        short = path.relative_to(root / tree).as_posix()
        package = name.removesuffix(".__main__")
        started = f'"{package}"' in code
        is_imported = any(f"{each}.".startswith(f"{name}.") for each in imported)
        if not (is_imported or started or short in texts or f"python -m {name}" in texts):
            yield f"{path.relative_to(root)}: nothing imports, names or documents it; remove it"


def links_in(path: Path) -> set[Path]:
    found = (first or second for first, second in MARKDOWN_LINK.findall(text_of(path)))
    return {(path.parent / target).resolve() for target in found if "://" not in target}


def unlinked_docs(root: Path) -> Iterator[str]:
    linked: set[Path] = set()
    for start in ("README.md", "docs/README.md", "docs/design.md"):
        if (root / start).exists():
            linked |= links_in(root / start)
    for path in sorted((root / "docs").glob("*.md")):
        if path.resolve() not in linked:
            yield f"{path.relative_to(root)}: no README.md links it, nor docs/design.md"


def stale_docs(root: Path, generated: Mapping[str, str]) -> Iterator[str]:
    for name, module in generated.items():
        source = root / Path(*module.split("."))
        has_source = source.with_suffix(".py").exists() or source.is_dir()
        if has_source or (root / name).exists():
            yield from stale_doc(root, name, module)
    for path in tracked(root):
        if path.is_relative_to(root / "docs"):
            for module in GENERATED_MARK.findall(text_of(path)):
                if module not in generated.values():
                    yield f"{path.relative_to(root)}: add {module} to house_rules.GENERATED"


def stale_doc(root: Path, name: str, module: str) -> Iterator[str]:
    command = [sys.executable, "-m", module]
    printed = subprocess.run(command, cwd=root, capture_output=True, text=True, check=False)
    if printed.returncode != 0:
        yield f"{name}: `python -m {module}` failed: {printed.stderr.strip()[-200:]}"
    elif not (root / name).exists() or (root / name).read_text() != printed.stdout:
        yield f"{name}: stale; type  .venv/bin/python -m {module} >{name}"


def unlocked(root: Path) -> Iterator[str]:
    """Dependencies for which a lock file has no version that fits, or a version of its own."""
    pyproject = tomllib.loads((root / "pyproject.toml").read_text())
    project, groups = pyproject["project"], pyproject.get("dependency-groups", {})
    extras = project.get("optional-dependencies", {})
    needed, build = project["dependencies"], groups.get("build", [])
    dev = [each for each in groups.get("dev", []) if isinstance(each, str)]
    demo = [each for extra in LOCKED_EXTRAS for each in extras.get(extra, [])]
    locks = {LOCK: [*needed, *build, *dev, *demo], GATEWAY_LOCK: needed, BUILD_LOCK: build}
    pinned = {lock: versions_in(root / lock) for lock in locks}
    for lock, wanted in locks.items():
        for requirement in map(Requirement, wanted):
            versions = pinned[lock].get(canonicalize_name(requirement.name), set())
            if not any(requirement.specifier.contains(version) for version in versions):
                yield f"{lock}: nothing fits {requirement}; type  make lock"
        for name, versions in pinned[lock].items():
            if not versions <= pinned[LOCK].get(name, set()):
                yield f"{lock}: {name} is not that of {LOCK}; type  make lock"


def versions_in(lock: Path) -> dict[str, set[str]]:
    found: dict[str, set[str]] = {}
    for pin, _ in pins_in(lock):
        version = str(pin.specifier).removeprefix("==")
        found.setdefault(canonicalize_name(pin.name), set()).add(version)
    return found


def pins_in(lock: Path) -> Iterator[tuple[Requirement, list[str]]]:
    """Each with the hashes of its files."""
    for line in lock.read_text().replace("\\\n", "").splitlines():
        pin, *hashes = line.partition("#")[0].split("--hash=")
        if pin.strip():
            yield Requirement(pin), [each.strip() for each in hashes]


def unhashed(root: Path) -> Iterator[str]:
    """Pins of a lock file that are not of one version, by the sha256 of each of its files."""
    for lock in sorted((root / ".ci").glob("*.lock")):
        for pin, hashes in pins_in(lock):
            if not EXACT.fullmatch(str(pin.specifier)):
                yield f"{lock.relative_to(root)}: {pin.name} is not of one version; type  make lock"
            if not hashes or not all(SHA256.fullmatch(each) for each in hashes):
                yield f"{lock.relative_to(root)}: {pin.name} has no sha256; type  make lock"
