"""The name of a checkpoint's file, made from the iteration, the time and metrics."""

from __future__ import annotations

import re
import time
from collections.abc import Mapping
from string import Formatter

from rlcore.foundation.errors import ConfigError, nearest_name

PLAIN_FILE_NAME = "iteration_{iteration:06d}"

# After the number something that cannot be taken for a further digit of it.
_FORM = re.compile(re.escape(PLAIN_FILE_NAME) + r"(-.+)?", re.DOTALL)
_ALLOWED = re.compile(r"[A-Za-z0-9_.=+,-]*")
_MAX_LENGTH = 200  # file systems allow 255 bytes, of which a file that is being written needs some more


class CheckpointFileName:
    """``iteration_{iteration:06d}``, which may be followed by ``-`` and further text with fields in braces, as ``str.format`` has
    them: ``{time}`` (of writing, UTC, like 20261201T235959), and names of metrics with a format of one's own:
    ``iteration_{iteration:06d}-{validation/return/mean:.2f}``.

    Raises:
        ConfigError: for another form.
    """

    def __init__(self, template: str) -> None:
        match = _FORM.fullmatch(template)
        if match is None:
            raise ConfigError(
                f"file_name of checkpoints must be {PLAIN_FILE_NAME!r}, alone or followed by '-' and more, was {template!r}: "
                "the newest is found by that number"
            )
        try:
            self._pieces = list(Formatter().parse(match[1] or ""))
        except ValueError as error:
            raise ConfigError(f"file_name of checkpoints must be a format string, was {template!r}: {error}") from error
        if any(conversion is not None for _, _, _, conversion in self._pieces):
            raise ConfigError(f"file_name of checkpoints must hold fields without conversions, was {template!r}: leave '!' out")
        self._template = template
        self._check("".join(literal for literal, _, _, _ in self._pieces))
        fields = [field for _, field, _, _ in self._pieces if field is not None]
        self.metrics = tuple(field for field in fields if field not in ("iteration", "time"))
        """The metrics that it names."""

    def render(self, iteration: int, metrics: Mapping[str, float]) -> str:
        """Return the name of a file.

        Raises:
            ConfigError: for a metric that is not among ``metrics``, or a character that does not belong in a file's name.
        """
        now = time.strftime("%Y%m%dT%H%M%S", time.gmtime())
        values: dict[str, float | str] = {**metrics, "iteration": iteration, "time": now}
        text = "".join(literal + self._field(field, form, values) for literal, field, form, _ in self._pieces)
        self._check(text)
        return f"{PLAIN_FILE_NAME.format(iteration=iteration)}{text}.ckpt"

    def _check(self, text: str) -> None:
        if not _ALLOWED.fullmatch(text):
            raise ConfigError(
                f"file_name of checkpoints must give letters, digits and any of '_.=+,-', "
                f"gave {text!r}: change {self._template!r}"
            )
        if len(text) > _MAX_LENGTH:
            raise ConfigError(
                f"file_name of checkpoints must give at most {_MAX_LENGTH} characters after the number, gave {len(text)}: "
                "shorten it"
            )

    def _field(self, field: str | None, form: str | None, values: Mapping[str, float | str]) -> str:
        if field is None:
            return ""
        if field not in values:
            raise ConfigError(
                f"metric {field!r} of the checkpoints' file_name must be among those of the training so far, was not"
                f"{nearest_name(field, values)}: name one that is there when the first checkpoint is written"
            )
        try:
            return format(values[field], form or "")
        except ValueError as error:
            raise ConfigError(f"format of {field!r} in the checkpoints' file_name must fit its value: {error}") from error
