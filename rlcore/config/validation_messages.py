"""What pydantic found wrong, in our words: file and line (or ``--set``), key path, rule, value, remedy."""

from __future__ import annotations

import types
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Annotated, Any, Literal, Union, get_args, get_origin

from pydantic import BaseModel, ValidationError
from pydantic_core import ErrorDetails

from rlcore.config.yaml_files import KeyPath
from rlcore.foundation.errors import nearest_name

# What begins the tag of a union that no key of the file tells apart.
TAG_MARK = "?"

_RULES = {
    "greater_than": "be greater than {gt}",
    "greater_than_equal": "be at least {ge}",
    "less_than": "be less than {lt}",
    "less_than_equal": "be at most {le}",
    "multiple_of": "be a multiple of {multiple_of}",
    "finite_number": "be finite",
    "literal_error": "be {expected}",
    "int_type": "be a whole number",
    "int_parsing": "be a whole number",
    "int_from_float": "be a whole number",
    "float_type": "be a number",
    "float_parsing": "be a number",
    "bool_type": "be true or false",
    "bool_parsing": "be true or false",
    "string_type": "be text",
    "path_type": "be a path",
    "list_type": "be a list",
    "tuple_type": "be a list",
    "dict_type": "hold keys and values",
    "model_type": "hold keys and values",
    "model_attributes_type": "hold keys and values",
    "union_tag_invalid": "have as kind one of {expected_tags}",
    "union_tag_not_found": "name its kind",
    "string_pattern_mismatch": "match {pattern}",
    "too_short": "hold at least {min_length}",
    "too_long": "hold at most {max_length}",
    "date_from_datetime_parsing": "be a date such as 2021-04-01",
    "date_parsing": "be a date such as 2021-04-01",
    "time_parsing": "be a time such as 09:30",
}


@dataclass(frozen=True, slots=True)
class Source:
    """Where each key of an experiment came from."""

    file: Path | None = None
    lines: Mapping[KeyPath, int] = field(default_factory=dict)
    given: Mapping[KeyPath, str] = field(default_factory=dict)  # by --set

    def place(self, path: KeyPath) -> str:
        """Return ``--set a.b=1: `` or ``file.yaml line 3: `` for a key, the nearest around it, or one set in it."""
        for text_path, text in self.given.items():
            shared = min(len(text_path), len(path))
            if shared and path[:shared] == text_path[:shared]:
                return f"--set {text}: "
        if self.file is None:
            return ""
        line = self.line(path)
        return f"{self.file}: " if line is None else f"{self.file} line {line}: "

    def line(self, path: KeyPath) -> int | None:
        """Return the line of a key, or of the nearest around it; None: of neither."""
        for length in range(len(path), 0, -1):
            if path[:length] in self.lines:
                return self.lines[path[:length]]
        return None


def explain(error: ValidationError, model: type[BaseModel], data: Mapping[str, Any], source: Source) -> str:
    """Return one line for each thing that is wrong."""
    lines = []
    details = [(detail, _key_path(detail["loc"], data)) for detail in error.errors(include_url=False)]
    details.sort(key=lambda pair: source.line(pair[1]) or 0)  # as one reads the file
    for detail, path in details:
        if detail["type"] == "too_short" and any(len(other) > len(path) and other[: len(path)] == path for _, other in details):
            continue  # pydantic counts only the entries that are right
        stands_at = (*path, "kind") if detail["type"] == "union_tag_invalid" else path
        lines.append(source.place(stands_at) + _sentence(detail, path, model, data))
    return "\n".join(dict.fromkeys(lines))


def _key_path(location: tuple[str | int, ...], data: Any) -> KeyPath:
    """Drop from pydantic's location the tags of unions, which are no keys."""
    path: list[str | int] = []
    at = data
    for step in location:
        if isinstance(at, Mapping) and step == at.get("kind") and step not in at:
            continue
        if isinstance(step, str) and step.startswith(TAG_MARK):
            continue
        if step == "[key]" or (isinstance(step, str) and not isinstance(at, Mapping) and path):
            continue  # pydantic's mark of a key, the name of a validator
        path.append(step)
        try:
            at = at[step]
        except (KeyError, IndexError, TypeError):
            at = None
    return tuple(path)


def _sentence(detail: ErrorDetails, path: KeyPath, model: type[BaseModel], data: Mapping[str, Any]) -> str:
    key = ".".join(map(str, path)) or "the experiment"
    kind, context = detail["type"], detail.get("ctx", {})
    if kind == "extra_forbidden":
        return f"{key} must be a known key, is none{_suggestion(path, model, data)}"
    if kind == "missing":
        return f"{key} must be given{_meaning(path, model, data)}: add it to the file, or --set {key}=VALUE"
    if kind == "value_error":
        message = str(context.get("error", detail["msg"]))
        return message if message.startswith(f"{key} ") else f"{key} {message}"
    if kind == "union_tag_not_found":
        return f"{key} must name its kind, named none: add kind: {_kinds(path, model, data)}"
    if kind == "union_tag_invalid":
        tags = [tag.strip().strip("'") for tag in str(context["expected_tags"]).split(",")]
        given = str(context["tag"])
        return f"{key}.kind must be one of {', '.join(tags)}, was {given!r}{nearest_name(given, tags)}"
    rule = _RULES.get(kind)
    given = repr(detail["input"])
    given = given if len(given) <= 80 else f"{given[:77]}…"
    if rule is None:
        return f"{key}: {detail['msg']}, was {given}"
    return f"{key} must {rule.format(**context)}, was {given}"


def _suggestion(path: KeyPath, model: type[BaseModel], data: Mapping[str, Any]) -> str:
    """Name the nearest key of the same section, else where a key of this name stands, else all keys."""
    name = str(path[-1])
    owner = _spec_at(model, data, path[:-1])
    known = list(owner.model_fields) if owner is not None else []
    near = nearest_name(name, known)
    if near:
        return near
    elsewhere = [key for key in _keys(model, data) if key.rsplit(".", 1)[-1] == name]
    if elsewhere:
        return f" (did you mean {elsewhere[0]!r}?)"
    return f": known here are {', '.join(known)}" if known else ""


def _meaning(path: KeyPath, model: type[BaseModel], data: Mapping[str, Any]) -> str:
    owner = _spec_at(model, data, path[:-1])
    text = owner.model_fields[str(path[-1])].description if owner and str(path[-1]) in owner.model_fields else None
    return f" ({text.strip().splitlines()[0].rstrip('.')})" if text else ""


def _kinds(path: KeyPath, model: type[BaseModel], data: Mapping[str, Any]) -> str:
    owner = _spec_at(model, data, path[:-1])
    annotation = owner.model_fields[str(path[-1])].annotation if owner and str(path[-1]) in owner.model_fields else None
    return " or ".join(kind for kind, _ in _specs_in(annotation) if kind) or "…"


def _spec_at(model: type[BaseModel], data: Any, path: KeyPath) -> type[BaseModel] | None:
    """Return the spec class that stands at a key path of the given data."""
    annotation: Any = model
    at = data
    for step in path:
        spec = _choose(annotation, at)
        if spec is not None:
            if str(step) not in spec.model_fields:
                return None
            annotation = spec.model_fields[str(step)].annotation
        else:
            annotation = _element(annotation)
        try:
            at = at[step]
        except (KeyError, IndexError, TypeError):
            at = None
    return _choose(annotation, at)


def _choose(annotation: Any, data: Any) -> type[BaseModel] | None:
    found = list(_specs_in(annotation))
    if len(found) == 1:
        return found[0][1]
    kind = data.get("kind") if isinstance(data, Mapping) else None
    return next((spec for name, spec in found if name == kind), None)


def _specs_in(annotation: Any) -> Iterator[tuple[str | None, type[BaseModel]]]:
    """Yield (kind, spec class) of everything that may stand at this annotation, not inside containers."""
    if isinstance(annotation, type) and issubclass(annotation, BaseModel):
        kind = annotation.model_fields.get("kind")
        tags = get_args(kind.annotation) if kind is not None and get_origin(kind.annotation) is Literal else ()
        yield (tags[0] if tags else None), annotation
    elif get_origin(annotation) in (Union, types.UnionType, Annotated):
        for choice in get_args(annotation):
            yield from _specs_in(choice)


def _element(annotation: Any) -> Any:
    """Return the annotation of what a dict, list or tuple holds."""
    if get_origin(annotation) is Annotated:
        return _element(get_args(annotation)[0])
    if get_origin(annotation) in (Union, types.UnionType):
        return next((found for choice in get_args(annotation) if (found := _element(choice)) is not None), None)
    inner = [argument for argument in get_args(annotation) if argument is not Ellipsis]
    return inner[-1] if inner else None


def _keys(model: type[BaseModel], data: Any, prefix: str = "") -> Iterator[str]:
    """Yield every dotted key that may stand in this experiment."""
    for name, info in model.model_fields.items():
        yield f"{prefix}{name}"
        below = data.get(name) if isinstance(data, Mapping) else None
        spec = _choose(info.annotation, below)
        if spec is not None:
            yield from _keys(spec, below, f"{prefix}{name}.")
