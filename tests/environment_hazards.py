"""The small task as it goes wrong: it ends its process, hangs, raises or sleeps. Apart from the tests: workers load it fast."""

from __future__ import annotations

import ctypes
import os
import signal
import time
from contextlib import suppress
from pathlib import Path

import numpy as np

from tests.environment_toys import Spend, WorldSeeds, random_world

BAD_BUDGET = 600.0  # and above: a seed that something happens to, at the second step


def bad_world(num_seeds: int, *bad: int) -> WorldSeeds:
    """Return seeds of which some are bad; a bad seed's budget is BAD_BUDGET + its position."""
    world = random_world(0, num_seeds)
    world[list(bad), 0] = BAD_BUDGET + np.array(bad, float)
    return WorldSeeds(world)


class HazardousSpend(Spend):
    def step(self, state, command):
        for budget in state.budget[(state.budget >= BAD_BUDGET) & (state.step == 1)]:
            self.meet(int(budget - BAD_BUDGET))
        return super().step(state, command)

    def meet(self, position: int) -> None:
        """Come to the second step of the bad seed at this position."""
        raise ValueError("a bad number")


class DyingSpend(HazardousSpend):
    """Ends its process, or hangs."""

    def __init__(self, how: str) -> None:
        self.how = how

    def meet(self, position):
        end_process(self.how)


class DyingOnceSpend(HazardousSpend):
    """Ends its process the first time that it comes to a bad seed."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    def meet(self, position):
        with suppress(FileExistsError):
            (self.folder / str(position)).touch(exist_ok=False)
            end_process("exit")


class RandomlyDyingSpend(Spend):
    """Ends its process at random moments, as often as there are files in a folder."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    def step(self, state, command):
        if int.from_bytes(os.urandom(1)) < 8:
            take_one_and_die(self.folder)
        return super().step(state, command)


class DeadlyToLoad(Spend):
    """Ends the process that unpickles it."""

    def __reduce__(self):
        return end_process, ("exit",)


class SleepySpend(Spend):
    def step(self, state, command):
        time.sleep(0.005)
        return super().step(state, command)


def end_process(how: str) -> None:
    if how == "exit":
        os._exit(7)
    if how == "kill":
        os.kill(os.getpid(), signal.SIGKILL)
    if how == "crash":
        ctypes.string_at(0)
    time.sleep(600)


def take_one_and_die(folder: Path) -> None:
    for path in folder.iterdir():
        with suppress(FileNotFoundError):  # another one was faster
            path.unlink()
            end_process("kill")
