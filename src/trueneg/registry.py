"""Names that options accept: one table per kind, extended by plugins.

A plugin adds names without a change here, in one of two ways. An installed package declares entry points, in its
``pyproject.toml``::

    [project.entry-points."trueneg.detectors"]
    mine = "my_package.my_module:make_detector"

Or a module that is named by ``--plugin`` defines the same as a mapping::

    TRUENEG = {"detectors": {"mine": "my_module:make_detector"}}

The groups are those of :data:`GROUPS`; docs/extending.md says what each entry is. Loaded plugins belong to the process,
as imported modules do: loading one again does nothing. A run's configuration records them, but reading it does not
import them: somebody else's folder must not decide what code runs.
"""

from __future__ import annotations

import difflib
import importlib
import pkgutil
import sys
from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass
from functools import cache
from importlib.metadata import entry_points
from pathlib import Path
from typing import Any

from trueneg.errors import ConfigError, TruenegError, unknown_name

GROUPS = ("objectives", "scorers", "detectors", "tasks", "attacks")
"""Kinds of names that plugins add: keys of ``TRUENEG``, and entry-point groups ``trueneg.<key>``."""

_BUILT_IN = "trueneg itself"


@dataclass(frozen=True)
class Entry:
    """What a name refers to."""

    target: str
    """``module:attribute``."""
    origin: str
    """The package or plugin that registered it."""


class Registry(Mapping[str, str]):
    """The names of one kind: the built-in ones and those of plugins, each with its ``module:attribute``.

    Plugins are looked up whenever the registry is read, so plugins that are loaded later are found.

    Args:
        kind: What the names are, in the singular, for messages.
        group: Group in which plugins register such names: one of :data:`GROUPS`.
        builtin: The built-in names.
        about: One-line descriptions of built-in names.
        reserved: Further names that plugins must not use.

    Raises:
        ConfigError: when it is read, if a plugin uses a name that is built in or registered by another plugin.
    """

    def __init__(
        self,
        kind: str,
        group: str,
        builtin: Mapping[str, str],
        about: Mapping[str, str] | None = None,
        reserved: Collection[str] = (),
    ) -> None:
        assert group in GROUPS
        self.kind = kind
        self.group = group
        self.builtin = dict(builtin)
        self._about = dict(about or {})
        self._taken = {*builtin, *self._about, *reserved}

    def __getitem__(self, name: str) -> str:
        return self._entries()[name].target

    def __iter__(self) -> Iterator[str]:
        return iter(self._entries())

    def __len__(self) -> int:
        return len(self._entries())

    def load(self, name: str) -> Any:
        """Load the object that a name refers to.

        Raises:
            ConfigError: for an unknown name, with the closest one; for a plugin's name that cannot be imported.
        """
        entries = self._entries()
        if name not in entries:
            raise ConfigError(unknown_name(self.kind, name, entries))
        entry = entries[name]
        try:
            return _attribute(entry.target)
        except TruenegError:
            raise
        except Exception as error:
            if entry.origin == _BUILT_IN:
                raise
            raise ConfigError(
                f"{self.kind} '{name}' of {entry.origin} fails to import ('{entry.target}'): {_told(error)}"
            ) from error

    def origin(self, name: str) -> str:
        """Return which package or plugin registered a name."""
        return self._entries()[name].origin

    def known(self) -> list[str]:
        """Return all names to list: built-in ones with their parts (``glue/mrpc``), and those of plugins."""
        return list(dict.fromkeys([*self._about, *self._entries()]) if self._about else self._entries())

    def described(self) -> dict[str, str]:
        """Return a description of each name, and for plugins where they come from.

        For plugins, and for built-in names of a registry without ``about``, it is the first line of the docstring.
        """
        described = dict(self._about)
        for name, entry in self._entries().items():
            if name in described or (self._about and entry.origin == _BUILT_IN):
                continue
            try:
                about = (self.load(name).__doc__ or "").strip().partition("\n")[0]
            except ConfigError as error:
                about = str(error)
            described[name] = about if entry.origin == _BUILT_IN else f"{about} [{entry.origin}]".strip()
        return described

    def _entries(self) -> dict[str, Entry]:
        entries = {name: Entry(target, _BUILT_IN) for name, target in self.builtin.items()}
        for name, entry in _added(self.group):
            if name in self._taken:
                raise ConfigError(f"{entry.origin} registers the {self.kind} '{name}', which is built in: rename it")
            known = entries.setdefault(name, entry)
            if known.target != entry.target:
                raise ConfigError(
                    f"{known.origin} and {entry.origin} both register the {self.kind} '{name}': leave one of them out"
                )
        return entries


def load(kind: str, name: str, table: Mapping[str, str]) -> Any:
    """Load the ``module:attribute`` that ``table`` has under ``name``.

    Raises:
        ConfigError: for a name that is not in the table, with the closest one that is.

    Example:
        >>> load("shape", "sqare", {"square": "math:sqrt"})
        Traceback (most recent call last):
        trueneg.errors.ConfigError: unknown shape 'sqare': did you mean 'square'? Known: square
    """
    if name not in table:
        raise ConfigError(unknown_name(kind, name, table))
    return _attribute(table[name])


_PLUGINS: dict[str, Mapping[str, Mapping[str, str]]] = {}
"""Modules that :func:`load_plugins` has imported, with what each registers; one per process, like ``sys.modules``."""


def load_plugins(names: str | Iterable[str]) -> None:
    """Import modules that register names, as ``--plugin`` does; those that are loaded already are skipped.

    Modules are searched for on Python's path, then in the current folder.

    Args:
        names: Names of modules, or one comma-separated string, as configurations record them.

    Raises:
        ConfigError: for a module that is not found, fails to import, or registers nothing.

    Example:
        >>> load_plugins("jsom")
        Traceback (most recent call last):
        trueneg.errors.ConfigError: plugin 'jsom' is not found: did you mean 'json'? Install it, or run where it is
    """
    for name in names.split(",") if isinstance(names, str) else names:
        if name.strip() and name.strip() not in _PLUGINS:
            _PLUGINS[name.strip()] = _tables(name.strip(), _plugin_module(name.strip()))


def require_plugins(names: str) -> None:
    """Refuse a configuration whose plugins are not loaded: no module is imported because a file names it.

    Args:
        names: Comma-separated names of modules, as configurations record them.

    Raises:
        ConfigError: naming the ones that are missing.
    """
    missing = [name for name in names.split(",") if name and name not in _PLUGINS]
    if missing:
        options = " ".join(f"--plugin {name}" for name in missing)
        raise ConfigError(
            f"made with plugins that are not loaded: trueneg {options} … (a file's plugins are never imported)"
        )


def loaded_plugins() -> str:
    """Names of the modules that are loaded as plugins, comma-separated, as configurations record them."""
    return ",".join(_PLUGINS)


def _plugin_module(name: str) -> Any:
    try:
        return _import_from_here(name)
    except TruenegError:
        raise
    except Exception as error:
        missing = error.name if isinstance(error, ModuleNotFoundError) else None
        if missing is None or not f"{name}.".startswith(f"{missing}."):
            raise ConfigError(f"plugin '{name}' fails to import: {_told(error)}") from error
        modules = [module.name for module in pkgutil.iter_modules()]
        close = difflib.get_close_matches(name, modules, n=1, cutoff=0.5)
        hint = f": did you mean '{close[0]}'?" if close else "."
        raise ConfigError(f"plugin '{name}' is not found{hint} Install it, or run where it is") from error


def _import_from_here(name: str) -> Any:
    """Import a module; if it is not found, from the current folder, which stays on the path for its submodules."""
    here = str(Path.cwd())
    try:
        return importlib.import_module(name)
    except ModuleNotFoundError:
        if here in sys.path or not any(Path(name.partition(".")[0] + end).exists() for end in ("", ".py")):
            raise
        sys.path.append(here)
        return importlib.import_module(name)


def _tables(name: str, module: Any) -> Mapping[str, Mapping[str, str]]:
    tables = getattr(module, "TRUENEG", None)
    if not isinstance(tables, Mapping):
        raise ConfigError(
            f"plugin '{name}' registers nothing: give the module a mapping such as "
            f'TRUENEG = {{"detectors": {{"mine": "{name}:make_detector"}}}}'
        )
    for group, table in tables.items():
        if group not in GROUPS:
            raise ConfigError(f"plugin '{name}': {unknown_name('key of TRUENEG', str(group), GROUPS)}")
        for key, target in table.items() if isinstance(table, Mapping) else [("", None)]:
            if not (isinstance(target, str) and ":" in target):
                raise ConfigError(f"plugin '{name}': TRUENEG['{group}']['{key}'] must be 'module:attribute'")
    return tables


def _added(group: str) -> list[tuple[str, Entry]]:
    """Names that plugins register in a group: installed packages first, then those of ``--plugin``."""
    found = [(name, Entry(target, origin)) for name, target, origin in _installed(f"trueneg.{group}", tuple(sys.path))]
    return found + [
        (name, Entry(target, f"the plugin '{module}'"))
        for module, tables in _PLUGINS.items()
        for name, target in tables.get(group, {}).items()
    ]


@cache
def _installed(group: str, path: tuple[str, ...]) -> list[tuple[str, str, str]]:
    """Entry points of a group: name, target and package; ``path``, Python's search path, only serves as a cache key."""
    return [
        (point.name, point.value, f"the package {point.dist.name} {point.dist.version}" if point.dist else "a package")
        for point in sorted(entry_points(group=group))
    ]


def _attribute(target: str) -> Any:
    module, _, attribute = target.partition(":")
    return getattr(importlib.import_module(module), attribute)


def _told(error: Exception) -> str:
    return f"{type(error).__name__}: {error}"
