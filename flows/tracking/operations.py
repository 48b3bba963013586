"""What a run has to say to the tracking server, as plain data: it can wait in a file until the server is back.

Every operation may be carried out twice without harm. A run is known by its ``run_key``, which we choose, and not by the
server's id, which nobody knows while the server is away.
"""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import BaseModel, ConfigDict, Field


class _Operation(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid")

    run_key: str


class StartRun(_Operation):
    """Create the run, or take it up again where one with this key exists."""

    kind: Literal["start"] = "start"
    name: str
    parent_key: str | None = None
    tags: dict[str, str] = {}
    started_ms: int


class LogMetrics(_Operation):
    """Finite figures of one step. What stands at (key, step) already is left alone."""

    kind: Literal["metrics"] = "metrics"
    step: int
    values: dict[str, float]
    at_ms: int


class LogParams(_Operation):
    """Fields of the experiment. What stands at a name already is left alone: MLflow refuses to change it."""

    kind: Literal["params"] = "params"
    params: dict[str, str]


class SetTags(_Operation):
    kind: Literal["tags"] = "tags"
    tags: dict[str, str]


class LogArtifact(_Operation):
    """Upload a file, or a folder with all that is in it."""

    kind: Literal["artifact"] = "artifact"
    path: str
    folder: str | None = None


class EndRun(_Operation):
    kind: Literal["end"] = "end"
    status: Literal["FINISHED", "FAILED", "KILLED"]
    ended_ms: int


Operation = Annotated[StartRun | LogMetrics | LogParams | SetTags | LogArtifact | EndRun, Field(discriminator="kind")]
