"""Registers plugins with pluggy: a function with a hook's name is that hook; one that cannot be called is refused."""

import inspect
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Final

import pluggy

from tinyagi.domain.errors import InvalidInput
from tinyagi.plugins.specs import PROJECT, Hooks

_BY_NAME: Final = (inspect.Parameter.POSITIONAL_OR_KEYWORD, inspect.Parameter.KEYWORD_ONLY)
_VARIABLE: Final = (inspect.Parameter.VAR_POSITIONAL, inspect.Parameter.VAR_KEYWORD)


@dataclass(frozen=True, slots=True)
class Hook:
    """A plugin's function for one hook; it may leave out parameters that it does not use."""

    function: Callable[..., object]
    accepts: tuple[str, ...]

    @property
    def is_async(self) -> bool:
        return inspect.iscoroutinefunction(self.function)

    def __call__(self, **values: object) -> object:
        return self.function(**{name: values[name] for name in self.accepts})


class Registry(pluggy.PluginManager):
    """Knows the hooks and who implements them. It calls none: the host does, one plugin at a time."""

    def __init__(self) -> None:
        super().__init__(PROJECT)
        self.add_hookspecs(Hooks)

    def add(self, name: str, plugin: object) -> Mapping[str, Hook]:
        """Register the plugin and return its hooks; raise InvalidInput when one is not as specified, or none."""
        self.register(plugin, name=name)
        hooks = {
            caller.name: Hook(implementation.function, _accepted(implementation.function, self._expected(caller.name)))
            for caller in self.get_hookcallers(plugin) or ()
            for implementation in caller.get_hookimpls()
            if implementation.plugin_name == name
        }
        if not hooks:
            self.unregister(name=name)
            raise InvalidInput(f"It defines none of the hooks: {', '.join(sorted(vars(self.hook)))}.")
        return hooks

    def parse_hookimpl_opts(self, plugin: object, name: str) -> pluggy.HookimplOpts | None:
        """Take every function that has the name of a hook, without a marker."""
        if name not in vars(self.hook):
            return None
        expected = self._expected(name)
        function = getattr(plugin, name)
        if not (inspect.isfunction(function) or inspect.ismethod(function)):
            raise InvalidInput(f"{name} is no function; write def {name}({', '.join(expected)}).")
        _accepted(function, expected)
        return pluggy.HookimplOpts(
            wrapper=False, hookwrapper=False, optionalhook=False, tryfirst=False, trylast=False, specname=None
        )

    def _expected(self, name: str) -> tuple[str, ...]:
        specification = getattr(self.hook, name).spec
        return tuple(specification.argnames)


def _accepted(function: Callable[..., object], expected: tuple[str, ...]) -> tuple[str, ...]:
    """The expected parameters that the function has; raise InvalidInput when it needs another one."""
    signature = inspect.signature(function)
    accepts = []
    for name, parameter in signature.parameters.items():
        if name in expected and parameter.kind in _BY_NAME:
            accepts.append(name)
        elif parameter.default is inspect.Parameter.empty and parameter.kind not in _VARIABLE:
            given = ", ".join(signature.parameters)
            raise InvalidInput(
                f"{function.__name__}({given}) has the wrong parameters; "
                f"write {function.__name__}({', '.join(expected)})."
            )
    return tuple(accepts)
