"""What is tried after a worker has died: the same chunk again, then its halves, until what kills stands alone."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from rlcore.environment.worker_jobs import Chunk

# "fail": the passage ends with an error; "restart": a new worker takes over what the dead one was at.
OnWorkerDeath = Literal["fail", "restart"]

# A position that stands alone and kills so many workers is itself to blame: what kills now and then (the memory limit of a
# crowded machine, say) would have let it pass once.
DEATHS_OF_ONE_POSITION = 3

# So many workers in a row that do not even start, or load the job: none will.
DEATHS_BEFORE_RUNNING = 3

# So many deaths with no chunk finished in between: nothing survives here, and trying every seed would take hours.
DEATHS_WITHOUT_SUCCESS = 100


@dataclass(frozen=True, slots=True)
class Assignment:
    """A chunk that a worker is given."""

    chunk: Chunk
    num_deaths: int = 0  # of workers that had exactly this chunk
    is_suspect: bool = False  # it is part of a chunk that killed twice

    @property
    def start(self) -> int:
        return self.chunk[0]

    @property
    def is_alone(self) -> bool:
        return self.chunk[1] - self.chunk[0] == 1

    @property
    def is_guilty(self) -> bool:
        """Whether it is to be given up."""
        return self.is_alone and self.num_deaths >= DEATHS_OF_ONE_POSITION


def after_death(assignment: Assignment) -> list[Assignment]:
    """Return what to hand out after a worker has died of an assignment.

    A chunk gets a second chance as a whole, because most deaths have nothing to do with it. A second death makes it suspect: it
    is halved, and its parts at each further death.
    """
    (start, stop), num_deaths = assignment.chunk, assignment.num_deaths + 1
    if assignment.is_alone or (num_deaths == 1 and not assignment.is_suspect):
        return [Assignment(assignment.chunk, num_deaths, assignment.is_suspect)]
    middle = (start + stop) // 2
    return [Assignment((start, middle), 0, True), Assignment((middle, stop), 0, True)]
