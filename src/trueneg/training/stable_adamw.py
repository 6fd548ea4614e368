"""AdamW with Adafactor's update clipping (Wortsman et al. 2023)."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import torch
from torch import Tensor
from torch.optim import Optimizer


class StableAdamW(Optimizer):
    """AdamW with a shorter step where squared gradients outgrow their average (Wortsman et al. 2023, Algorithm 2).

    For each tensor, RMS_t = sqrt(mean(g_t^2 / max(v_t, eps^2))), with v_t the bias-corrected mean of squared gradients,
    and the learning rate of this step is lr / max(1, RMS_t), for the update and the decoupled weight decay alike.
    Where v_t keeps up with the gradient, this is AdamW.

    Args:
        groups: Parameter groups with their ``weight_decay``, as torch's optimizers take them.
        lr: Learning rate.
        betas: Decay rates of the running means of gradients and of squared gradients.
        eps: Added to the root of the mean of squared gradients.
    """

    def __init__(
        self, groups: Iterable[dict[str, Any]], lr: float, betas: tuple[float, float] = (0.9, 0.999), eps: float = 1e-6
    ) -> None:
        super().__init__(groups, {"lr": lr, "betas": betas, "eps": eps, "weight_decay": 0.0})

    @torch.no_grad()
    def step(self, closure: None = None) -> None:  # type: ignore[override]
        """Update every parameter that has a gradient."""
        for group in self.param_groups:
            parameters = [one for one in group["params"] if one.grad is not None]
            if parameters:
                self._change(parameters, group)

    def _change(self, parameters: list[Tensor], group: dict[str, Any]) -> None:
        beta1, beta2 = group["betas"]
        gradients = [one.grad for one in parameters if one.grad is not None]
        states = [self._state(one) for one in parameters]
        steps, means, squares = ([state[name] for state in states] for name in ("step", "exp_avg", "exp_avg_sq"))
        torch._foreach_add_(steps, 1)
        torch._foreach_lerp_(means, gradients, 1 - beta1)
        torch._foreach_mul_(squares, beta2)
        torch._foreach_addcmul_(squares, gradients, gradients, 1 - beta2)
        # What is one number for each tensor is computed as one vector, on the device, to avoid synchronisation.
        step = torch.stack(steps)
        roots = torch._foreach_sqrt(torch._foreach_div(squares, (1 - beta2**step).unbind()))
        norms = torch._foreach_norm(torch._foreach_div(gradients, torch._foreach_clamp_min(roots, group["eps"])))
        rms = torch.stack(torch._foreach_div(norms, [one.numel() ** 0.5 for one in parameters]))
        rates = group["lr"] / rms.clamp(min=1)
        if group["weight_decay"]:
            torch._foreach_mul_(parameters, (1 - rates * group["weight_decay"]).unbind())
        torch._foreach_add_(roots, group["eps"])
        updates = torch._foreach_div(means, roots)
        torch._foreach_mul_(updates, (rates / (1 - beta1**step)).unbind())
        torch._foreach_sub_(parameters, updates)

    def _state(self, parameter: Tensor) -> dict[str, Tensor]:
        state: dict[str, Tensor] = self.state[parameter]
        if not state:
            state["step"] = torch.zeros((), device=parameter.device)
            state["exp_avg"] = torch.zeros_like(parameter)
            state["exp_avg_sq"] = torch.zeros_like(parameter)
        return state
