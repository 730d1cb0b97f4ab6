"""Replays worlds: `python -m tests.simulation SEED [--count N] [--kind KIND] [--trace]`."""

from __future__ import annotations

import argparse
import logging
import sys

from tests.simulation.hard_plans import KINDS
from tests.simulation.protected_world import ProtectedWorld
from tests.simulation.stream import nothing
from tests.simulation.watch import BrokenPromiseError
from tests.simulation.world import World

PROTECTED = "protected"


def say(line: str) -> None:
    sys.stdout.write(line + "\n")


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.simulation", description=__doc__)
    parser.add_argument("seed", type=int, help="the first world to run")
    parser.add_argument("--count", type=int, default=1, help="how many worlds, from SEED on")
    kinds = "what is hard in them; else anything may be"
    parser.add_argument("--kind", choices=(*KINDS, PROTECTED), default="any", help=kinds)
    parser.add_argument("--trace", action="store_true", help="print every event as it happens")
    options = parser.parse_args()
    logging.disable()  # what the state store says of its disk is in the trace
    failed = 0
    for seed in range(options.seed, options.seed + options.count):
        tell = say if options.trace else nothing
        world: World | ProtectedWorld
        if options.kind == PROTECTED:
            world = ProtectedWorld(seed, tell)
        else:
            world = World(seed, tell, options.kind)
        try:
            world.run()
        except BrokenPromiseError as error:
            failed += 1
            sys.stderr.write(f"{error}\n")
        else:
            if options.count == 1:
                say(f"seed {seed}: {world.steps} steps, digest {world.digest:08x}, promises kept")
    if options.count > 1:
        say(f"{options.count} worlds, {failed} broke a promise")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
