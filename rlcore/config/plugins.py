"""A user's own parts: installed modules, or files beside the experiment, that expose ``register(registry)``."""

from __future__ import annotations

import importlib
import importlib.util
import sys
from collections.abc import Sequence
from pathlib import Path
from types import ModuleType

from rlcore.foundation.errors import ConfigError
from rlcore.foundation.fingerprints import fingerprint_file, fingerprint_of, fingerprint_sources
from rlcore.foundation.registry import Registry

_MARK = "__is_fillwright_plugin__"
_FAILURES = (Exception, SystemExit)  # a script that ends itself at its end is no plugin, and must not end the command


def load_plugins(plugins: Sequence[str], registry: Registry) -> None:
    """Import each plugin and let it register its parts.

    A file is imported under its own name, and its folder goes to the end of ``sys.path``: worker processes, which are handed
    ``sys.path``, find the same module when they unpickle its parts.

    Raises:
        ConfigError: for a plugin that is missing, fails, offers no ``register`` or takes an installed module's name.
    """
    for plugin in plugins:
        module = _import_file(Path(plugin)) if plugin.endswith(".py") else _import_module(plugin)
        register = getattr(module, "register", None)
        if not callable(register):
            raise ConfigError(f"plugin {plugin} must offer a function register(registry), offers none")
        try:
            register(registry)
        except _FAILURES as error:
            raise ConfigError(f"plugin {plugin} must register its parts, raised {error!r}") from error


def plugin_fingerprint(plugins: Sequence[str]) -> str:
    """Return the fingerprint of the plugins' sources, part of every cache key."""
    sources = []
    for plugin in plugins:
        if plugin.endswith(".py"):
            sources.append(fingerprint_file(Path(plugin)))
            continue
        spec = importlib.util.find_spec(plugin)
        origin = Path(spec.origin) if spec is not None and spec.origin else None
        if origin is None:
            raise ConfigError(f"plugin {plugin} must be an installed module, was not found")
        is_package = origin.name == "__init__.py"
        sources.append(fingerprint_sources(origin.parent) if is_package else fingerprint_file(origin))
    return fingerprint_of(sources)


def _import_module(name: str) -> ModuleType:
    try:
        return importlib.import_module(name)
    except ModuleNotFoundError as error:
        if error.name is not None and (name == error.name or name.startswith(f"{error.name}.")):
            raise ConfigError(
                f"plugin {name} must be an installed module or a .py file beside the experiment, was not found"
            ) from error
        raise ConfigError(f"plugin {name} must be importable, raised {error!r}") from error
    except _FAILURES as error:
        raise ConfigError(f"plugin {name} must be importable, raised {error!r}") from error


def _import_file(path: Path) -> ModuleType:
    if not path.is_file():
        raise ConfigError(f"plugin {path} must be a file, is not there")
    name, folder = path.stem, str(path.parent)
    present = sys.modules.get(name)
    if present is not None and getattr(present, "__file__", None) == str(path):
        return present
    is_ours = present is not None and hasattr(present, _MARK)
    if not name.isidentifier() or (not is_ours and _is_taken(name, path)):
        raise ConfigError(f"plugin {path} must have a name that no installed module has: give the file another name")
    spec = importlib.util.spec_from_file_location(name, path)
    if spec is None or spec.loader is None:
        raise ConfigError(f"plugin {path} must be a Python file")
    module = importlib.util.module_from_spec(spec)
    setattr(module, _MARK, True)
    sys.modules[name] = module
    try:
        spec.loader.exec_module(module)
    except _FAILURES as error:
        del sys.modules[name]
        raise ConfigError(f"plugin {path} must be importable, raised {error!r}") from error
    if is_ours and present is not None:
        former = str(Path(str(present.__file__)).parent)
        sys.path[:] = [entry for entry in sys.path if entry != former]
    if folder not in sys.path:
        sys.path.append(folder)
    return module


def _is_taken(name: str, path: Path) -> bool:
    spec = importlib.util.find_spec(name)
    return spec is not None and (spec.origin is None or Path(spec.origin) != path)
