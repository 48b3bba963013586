"""Reading YAML: the core schema of YAML 1.2, every key once, and where each key stands.

PyYAML's own resolvers follow YAML 1.1, which reads the time ``10:30`` as 630, the venue ``NO`` as false and ``1e-4`` as text.
"""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import yaml

from rlcore.foundation.errors import ConfigError

KeyPath = tuple[str | int, ...]

# Far above any experiment. Anchors can make a small file grow without end when everything they name is written out.
_MOST_NODES, _DEEPEST = 100_000, 50


class _CoreLoader(yaml.SafeLoader):
    """YAML 1.2 core schema; a key that stands twice is an error."""

    yaml_implicit_resolvers = {}  # noqa: RUF012  # as PyYAML declares it; its own are not wanted

    def construct_mapping(self, node: yaml.MappingNode, deep: bool = False) -> dict[Any, Any]:
        seen: set[Any] = set()
        for key_node, _ in node.value:
            key = self.construct_object(key_node, deep=True)
            if not isinstance(key, str):
                raise yaml.constructor.ConstructorError(None, None, f"key must be text, was {key!r}", key_node.start_mark)
            if key in seen:
                raise yaml.constructor.ConstructorError(
                    None, None, f"key must stand once, {key!r} stands twice", key_node.start_mark
                )
            seen.add(key)
        return super().construct_mapping(node, deep)


_RESOLVERS = {
    "tag:yaml.org,2002:null": (r"~|null|Null|NULL|", ["~", "n", "N", ""]),
    "tag:yaml.org,2002:bool": (r"true|True|TRUE|false|False|FALSE", list("tTfF")),
    "tag:yaml.org,2002:int": (r"[-+]?[0-9]+", list("-+0123456789")),
    "tag:yaml.org,2002:float": (
        r"[-+]?(\.[0-9]+|[0-9]+(\.[0-9]*)?)([eE][-+]?[0-9]+)?|[-+]?\.(inf|Inf|INF)|\.(nan|NaN|NAN)",
        list("-+.0123456789"),
    ),
}
for _tag, (_pattern, _first) in _RESOLVERS.items():
    _CoreLoader.add_implicit_resolver(_tag, re.compile(rf"^(?:{_pattern})$"), _first)


def _construct_integer(loader: _CoreLoader, node: yaml.ScalarNode) -> int:
    # PyYAML's own reads 010 as octal 8.
    try:
        return int(loader.construct_scalar(node))
    except ValueError as error:  # Python refuses thousands of digits
        raise yaml.constructor.ConstructorError(None, None, "number has too many digits", node.start_mark) from error


def _construct_number(loader: _CoreLoader, node: yaml.ScalarNode) -> float:
    return float(str(loader.construct_scalar(node)).lower().replace(".inf", "inf").replace(".nan", "nan"))


_CoreLoader.add_constructor("tag:yaml.org,2002:int", _construct_integer)
_CoreLoader.add_constructor("tag:yaml.org,2002:float", _construct_number)


def parse_yaml(text: str, where: str) -> Any:
    """Return the plain data of one YAML document.

    Raises:
        ConfigError: with the place, for text that is no YAML, names a key twice, or grows without end.
    """
    return _parse(text, where)[0]


def read_yaml(path: Path) -> tuple[dict[str, Any], dict[KeyPath, int]]:
    """Return the mapping in a file, and the line (from 1) at which each key path stands.

    Raises:
        ConfigError: for a file that cannot be read, or does not hold one mapping.
    """
    try:
        text = path.read_text(encoding="utf-8-sig")
    except (OSError, UnicodeDecodeError) as error:
        raise ConfigError(f"{path}: must be a readable YAML file: {getattr(error, 'strerror', None) or error}") from error
    data, root = _parse(text, str(path))
    if not isinstance(data, dict):
        was = "empty" if data is None else type(data).__name__
        raise ConfigError(f"{path}: must hold keys and values (name: …, market: …), was {was}")
    return data, _lines(root)


def _parse(text: str, where: str) -> tuple[Any, yaml.Node | None]:
    try:
        loader = _CoreLoader(text)  # a SafeLoader: it makes plain data only
        root = loader.get_single_node()
        if root is None:
            return None, None
        _refuse_endless(root)
        return loader.construct_document(root), root
    except yaml.MarkedYAMLError as error:
        raise ConfigError(f"{where}{_place(error.problem_mark)}: {error.problem or error}") from error
    except yaml.YAMLError as error:
        raise ConfigError(f"{where}: must be YAML, {' '.join(str(error).split())}") from error
    except RecursionError as error:  # of the parser, which calls itself for every level
        raise ConfigError(f"{where}: keys must be nested at most {_DEEPEST} levels deep, were deeper") from error


def _refuse_endless(root: yaml.Node) -> None:
    waiting = [(root, 0)]
    num_nodes = 0
    while waiting:
        node, depth = waiting.pop()
        num_nodes += 1
        if depth > _DEEPEST or num_nodes > _MOST_NODES:
            rule = f"keys must be nested at most {_DEEPEST} levels deep, and anchors must not make more than {_MOST_NODES} values"
            raise yaml.constructor.ConstructorError(None, None, rule, node.start_mark)
        if isinstance(node, yaml.MappingNode):
            waiting += [(child, depth + 1) for pair in node.value for child in pair]
        elif isinstance(node, yaml.SequenceNode):
            waiting += [(child, depth + 1) for child in node.value]


def _lines(root: yaml.Node | None) -> dict[KeyPath, int]:
    lines: dict[KeyPath, int] = {}

    def visit(node: yaml.Node, path: KeyPath) -> None:
        if isinstance(node, yaml.MappingNode):
            for key, value in node.value:
                lines[(*path, str(key.value))] = key.start_mark.line + 1
                visit(value, (*path, str(key.value)))
        elif isinstance(node, yaml.SequenceNode):
            for index, value in enumerate(node.value):
                lines[(*path, index)] = value.start_mark.line + 1
                visit(value, (*path, index))

    if root is not None:
        visit(root, ())
    return lines


def _place(mark: yaml.Mark | None) -> str:
    return f" line {mark.line + 1}" if mark is not None else ""
