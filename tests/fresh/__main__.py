"""`python -m tests.fresh [MACHINE ...]` makes bare machines, does there what README says, and
writes docs/machines.md. Exit code 0 if nothing failed, 69 if nothing could be run here.
"""

from __future__ import annotations

import argparse
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from contextlib import AbstractContextManager
from pathlib import Path
from typing import IO

from tests.fresh import document, results
from tests.fresh.machines import INSTALLED, MACHINES, USER, Machine, Step
from tests.fresh.results import Outcome, Result
from tests.support.debian_folder import (
    REPOSITORY,
    DebianFolder,
    Network,
    base,
    run,
    this_architecture,
    ways_out,
    why_not,
)

STEPS = Path(__file__).parent / "steps"
TOOLS = ("debootstrap", "slirp4netns", "qemu-user-static")
UNAVAILABLE = 69
FIRST_READING_S_MAX = 60.0  # from the first command, on a machine that has nothing else to do


def main(arguments: list[str]) -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.fresh", description=__doc__)
    parser.add_argument("machines", nargs="*", metavar="MACHINE", help="only this one")
    parser.add_argument("--list", action="store_true", help="list machines and steps")
    parser.add_argument("--quick", action="store_true", help="make quick instead of make test")
    parser.add_argument("--only", metavar="SCRIPT", help="with clone.sh: deb.sh, demo.sh, ...")
    parser.add_argument("--keep", action="store_true", help="leave the folders where they are")
    parser.add_argument("--work", type=Path, help="where the folders are made ($TMPDIR)")
    parser.add_argument("--roots", type=Path, help="where bases are kept (~/.cache/tidegate/roots)")
    given = parser.parse_args(arguments)
    unknown = set(given.machines) - {each.name for each in MACHINES}
    if unknown:
        parser.error(f"no such machine: {', '.join(sorted(unknown))}; --list lists them")
    wanted = [each for each in MACHINES if each.name in given.machines or not given.machines]
    if given.list:
        return show(wanted)
    if given.roots:
        os.environ["TIDEGATE_ROOTS"] = str(given.roots.resolve())
    # The folders are taken away then, too.
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(128 + signal.SIGTERM))
    install_tools()
    found: results.Results = {}
    for machine in wanted:
        found[machine.name] = run_machine(machine, given)
        if not given.only:
            results.save(machine.name, found[machine.name])
    if not given.only:
        document.write(results.load())
        say(f"{document.DOCUMENT.relative_to(REPOSITORY)} is written")
    return verdict(found)


def show(machines: list[Machine]) -> int:
    for machine in machines:
        sys.stdout.write(f"{machine.name:<16} {machine.title}\n")
        for step in machine.steps:
            sys.stdout.write(f"    {step.script:<14} {step.title}\n")
    return 0


def verdict(found: results.Results) -> int:
    every = [result.outcome for row in found.values() for result in row.values()]
    counts = {each: every.count(each) for each in Outcome}
    say(", ".join(f"{number} {outcome}" for outcome, number in counts.items()))
    if counts[Outcome.FAILED]:
        return 1
    return 0 if counts[Outcome.PASSED] else UNAVAILABLE


def say(text: str) -> None:
    sys.stderr.write(f"{time.strftime('%H:%M:%S')} {text}\n")
    sys.stderr.flush()


def install_tools() -> None:
    programs = ("debootstrap", "slirp4netns", "qemu-arm-static")
    if os.geteuid() == 0 and not all(map(shutil.which, programs)) and shutil.which("apt-get"):
        say(f"installing {' '.join(TOOLS)} with apt-get")
        run("bash", REPOSITORY / ".ci/install-packages.sh", *TOOLS, check=False)


# A machine


def run_machine(machine: Machine, given: argparse.Namespace) -> dict[str, Result]:
    steps = [each for each in machine.steps if is_wanted(each, given)]
    reason = why_not(machine.architecture)
    if reason is None:
        try:
            package = package_for(machine, steps)
            say(f"{machine.name}: making {machine.title}")
            base(machine.release, INSTALLED, machine.architecture)
        except (AssertionError, subprocess.SubprocessError, OSError) as error:
            reason = " ".join(str(error).split())[-160:]
    if reason is not None:
        say(f"{machine.name}: not run: {reason}")
        return {each.title: Result(Outcome.NOT_RUN, 0.0, reason) for each in steps}
    folder = Path(tempfile.mkdtemp(prefix=f"tidegate-{machine.name}-", dir=given.work))
    try:
        with DebianFolder(
            machine.release,
            folder,
            packages=INSTALLED,
            architecture=machine.architecture,
            network=Network.OWN if shutil.which("slirp4netns") else Network.SHARED,
            host=machine.name,
        ) as debian:
            prepare(debian, package)
            return {each.title: run_step(debian, machine, each) for each in steps}
    finally:
        if given.keep:
            say(f"{machine.name} is in {folder}/upper")
        else:
            shutil.rmtree(folder, ignore_errors=True)


def is_wanted(step: Step, given: argparse.Namespace) -> bool:
    if given.only:
        return step.script in ("clone.sh", given.only)
    return not (step.never_quick if given.quick else step.only_quick)


def package_for(machine: Machine, steps: list[Step]) -> Path | None:
    """The .deb with compiled modules, of this revision."""
    if all(step.script not in ("deb.sh", "parts.sh") for step in steps):
        return None
    architecture = machine.architecture or this_architecture()
    revision = float(run("git", "-C", REPOSITORY, "log", "-1", "--format=%ct"))
    built = sorted((REPOSITORY / "dist").glob(f"tidegate_*_{architecture}.deb"))
    compiled = [each for each in built if has_compiled(each) and each.stat().st_mtime > revision]
    if not compiled:
        say(f"{machine.name}: building the .deb of {architecture}, with compiled modules")
        script = REPOSITORY / ".ci/deb.py"
        run(sys.executable, script, "--arch", architecture, "--compile")
        compiled = sorted((REPOSITORY / "dist").glob(f"tidegate_*_{architecture}.deb"))
    return max(compiled, key=lambda path: path.stat().st_mtime)


def has_compiled(package: Path) -> bool:
    return "compiled_modules/cpython-313" in run("dpkg-deb", "--contents", package)


def prepare(debian: DebianFolder, package: Path | None) -> None:
    own = debian.root / "srv" / "fresh"
    shutil.copytree(STEPS, own)
    run("git", "-C", REPOSITORY, "bundle", "create", own / "tidegate.bundle", "HEAD")
    if package is not None:
        shutil.copy(package, own / "tidegate.deb")
    debian.do(f"useradd --create-home --shell /bin/bash {USER}")


def run_step(debian: DebianFolder, machine: Machine, step: Step) -> Result:
    user = "root" if step.is_root else machine.user
    log = results.FOLDER / machine.name / f"{step.script.removesuffix('.sh')}.log"
    log.parent.mkdir(parents=True, exist_ok=True)
    say(f"{machine.name}: {step.title} ...")
    began = time.monotonic()
    code: int | None = None
    with log.open("wb") as output, started(debian, machine, step, user, output) as process:
        try:
            code = process.wait(step.limit_s)
        except subprocess.TimeoutExpired:
            process.kill()
            say(f"{machine.name}: {step.title} is ended after {step.limit_s:.0f} s")
    said = log.read_text(encoding="utf-8", errors="replace")
    result = results.result_of(said, code, time.monotonic() - began)
    say(f"{machine.name}: {step.title}: {result.outcome} in {result.took_s:.0f} s: {result.words}")
    if result.outcome == Outcome.FAILED:
        say("".join(f"\n    {line[:160]}" for line in said.splitlines()[-8:]))
    return result


def started(
    debian: DebianFolder, machine: Machine, step: Step, user: str, output: IO[bytes]
) -> AbstractContextManager[subprocess.Popen[bytes]]:
    options = ("bash", "-euo", "pipefail")
    if step.is_outside:
        script = (*options, str(STEPS / step.script))
        return subprocess.Popen(script, cwd=REPOSITORY, stdout=output, stderr=subprocess.STDOUT)
    variables = ",".join(ways_out())
    kept = ("-w", variables) if variables else ()
    typed = f"{' '.join(options)} /srv/fresh/{step.script}"
    if machine.architecture is None:
        typed = f"FIRST_READING_S_MAX={FIRST_READING_S_MAX:.0f} {typed}"
    return debian.process(("su", "-l", *kept, user, "-c", typed), output)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
