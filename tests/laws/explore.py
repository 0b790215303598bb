"""Plays as many histories as there is time for, in all cores: `make explore`, `make explore MINUTES=60`.

Prints how many were played, and of the first law that does not hold a program that shows it.
"""

from __future__ import annotations

import argparse
import multiprocessing
import os
import random
import re
import sys
import time
from dataclasses import dataclass
from typing import Any

import pyarrow as pa
from hypothesis import HealthCheck, Phase, given, seed, settings
from hypothesis.errors import FlakyFailure

from tests.laws.example import Example, examples, require
from tests.laws.playing import PLAYED, Broken

EXAMPLES = 200
"""Examples of one seed."""


@dataclass(frozen=True)
class Told:
    """What a process tells: how much it has played since it last told, and a law that does not hold."""

    declarations: int
    refused: int
    histories: int
    plays: int
    broken: str | None


def explore(until: float, first_seed: int, told: Any) -> None:
    """Play examples until an instant, and tell after each seed."""
    pa.set_cpu_count(1)
    number = first_seed
    while time.monotonic() < until:
        broken = _of_seed(number)
        told.put(Told(PLAYED.declarations, PLAYED.refused, PLAYED.histories, PLAYED.count, broken))
        PLAYED.declarations = PLAYED.refused = PLAYED.histories = PLAYED.count = 0
        number += 1


def _of_seed(number: int) -> str | None:
    """Play the examples of a seed; return what is wrong, made small."""

    @seed(number)
    @settings(
        max_examples=EXAMPLES,
        deadline=None,
        database=None,
        suppress_health_check=[*HealthCheck],
        phases=[Phase.generate, Phase.shrink],
    )
    @given(example=examples())
    def play(example: Example) -> None:
        require(example)

    try:
        play()
    except (Broken, FlakyFailure) as error:
        return f"seed {number}: {error}"
    return None


def main() -> int:
    """Explore, and return 1 if a law does not hold."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--minutes", type=float, default=10)
    parser.add_argument("--processes", type=int, default=os.cpu_count() or 1)
    parser.add_argument("--seed", type=int, default=None, help="the first seed; drawn, if not given")
    parser.add_argument("--keep-going", action="store_true", help="go on after a law that does not hold")
    given_ = parser.parse_args()
    first = random.SystemRandom().randrange(10**9) if given_.seed is None else given_.seed
    until = time.monotonic() + 60 * given_.minutes
    told: Any = multiprocessing.Queue()
    processes = [
        multiprocessing.Process(target=explore, args=(until, first + 1_000_000 * place, told), daemon=True)
        for place in range(given_.processes)
    ]
    for process in processes:
        process.start()
    total = [0, 0, 0, 0]
    found = dict[str, int]()
    while any(process.is_alive() for process in processes) or not told.empty():
        try:
            one: Told = told.get(timeout=1)
        except Exception:  # noqa: BLE001, S112 -- nothing was told in a second
            continue
        total = [a + b for a, b in zip(total, (one.declarations, one.refused, one.histories, one.plays), strict=True)]
        if one.broken is not None:
            kind = re.sub(r"\d+", "0", "\n".join(one.broken.splitlines()[:2]))[:200]
            found[kind] = found.get(kind, 0) + 1
            if found[kind] == 1:
                sys.stdout.write(f"{one.broken}\n")
                sys.stdout.flush()
            if not given_.keep_going:
                break
    declared, refused, histories, plays = total
    differences = f"{sum(found.values())} differences, of {len(found)} kinds" if found else "no difference"
    sys.stdout.write(
        f"{declared:,} declarations ({refused:,} refused), {histories:,} histories, {plays:,} plays, "
        f"first seed {first}: {differences}\n"
    )
    for process in processes:
        process.terminate()
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main())
