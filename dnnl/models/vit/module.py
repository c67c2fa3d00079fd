"""What every module of the model shares: safe loading, and the names that are never decayed."""

import copy
import warnings
from collections.abc import Mapping
from typing import Any

import torch
from torch import Tensor, nn


class Module(nn.Module):
    """``nn.Module`` whose failed ``load_state_dict`` changes nothing."""

    def load_state_dict(
        self, state_dict: Mapping[str, Any], strict: bool = True, assign: bool = False
    ) -> Any:
        """Copy parameters and buffers from ``state_dict``: all of them, or none.

        Plain torch copies what fits and raises afterwards, which leaves a module that is half old
        and half new. Here a twin without storage goes first.

        Raises:
            RuntimeError: as torch does, for missing, unexpected or misshapen entries.
        """
        twin = copy.deepcopy(self, {id(t): _hollow(t) for t in _tensors(self)})
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # "copying to a meta parameter is a no-op": it is meant
            nn.Module.load_state_dict(twin, state_dict, strict, assign)
        return super().load_state_dict(state_dict, strict, assign)

    def no_weight_decay(self) -> set[str]:
        """Name the parameters to leave out of weight decay: class tokens and position tables.

        Names are those of ``named_parameters()``. Decay would pull a table of offsets towards
        "no position at all"; the exemption freezes nothing.
        """
        never = ("cls_token", "pos_embed")
        return {n for n, _ in self.named_parameters() if n.rpartition(".")[-1] in never}


def watched(*modules: nn.Module) -> bool:
    """Tell whether hooks, or a patched ``forward``, see what these modules take and return."""
    return nn.modules.module._has_any_global_hook() or any(  # type: ignore[no-untyped-call]
        m._forward_hooks or m._forward_pre_hooks or "forward" in vars(m) for m in modules
    )


def _tensors(module: nn.Module) -> list[Tensor]:
    return [*module.parameters(), *module.buffers()]


def _hollow(tensor: Tensor) -> Tensor:
    """Return a tensor like the given one that holds no numbers."""
    meta = torch.empty_like(tensor, device="meta")
    return nn.Parameter(meta, tensor.requires_grad) if isinstance(tensor, nn.Parameter) else meta


def token_parameter(num_tokens: int, embed_dim: int) -> nn.Parameter:
    """Return a trainable ``(1, num_tokens, embed_dim)``, normal with standard deviation 0.02."""
    return nn.Parameter(nn.init.trunc_normal_(torch.empty(1, num_tokens, embed_dim), std=0.02))
