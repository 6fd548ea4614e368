"""What goes to a device as a whole."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import fields, replace
from typing import Any, Self

import torch
from torch import Tensor


class Batch:
    """Base of frozen dataclasses of tensors, of mappings of them, and of other such dataclasses."""

    def to(self, device: torch.device | str) -> Self:
        """Copy to a device."""
        return self._map(lambda tensor: tensor.to(device, non_blocking=True))

    def pin_memory(self) -> Self:
        """Copy to memory that a GPU reads without waiting."""
        return self._map(lambda tensor: tensor.pin_memory())

    def _map(self, function: Callable[[Tensor], Tensor]) -> Self:
        values = {field.name: getattr(self, field.name) for field in fields(self)}  # type: ignore[arg-type]
        return replace(self, **{name: _mapped(value, function) for name, value in values.items()})  # type: ignore[type-var]


def _mapped(value: Any, function: Callable[[Tensor], Tensor]) -> Any:
    if isinstance(value, Tensor):
        return function(value)
    if isinstance(value, Batch):
        return value._map(function)
    if isinstance(value, Mapping):
        return {name: _mapped(part, function) for name, part in value.items()}
    return value
