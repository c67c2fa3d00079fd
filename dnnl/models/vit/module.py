"""What every module of the model shares: safe loading, and the names that are never decayed."""

import copy
import warnings
from collections import OrderedDict
from collections.abc import Mapping
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn.parameter import is_lazy


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
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # "copying to a meta parameter is a no-op": it is meant
            nn.Module.load_state_dict(_twin(self, {}), state_dict, strict, assign)
        return super().load_state_dict(state_dict, strict, assign)

    def no_weight_decay(self) -> set[str]:
        """Name the parameters to leave out of weight decay: class tokens and position tables.

        Names are those of ``named_parameters()``. Decay would pull a table of offsets towards
        "no position at all"; the exemption freezes nothing.
        """
        never = ("cls_token", "pos_embed")
        return {n for n, _ in self.named_parameters() if n.rpartition(".")[-1] in never}


def watched(*modules: nn.Module) -> bool:
    """Tell whether hooks, a patched ``forward`` or a compiler see what these modules compute."""
    if nn.modules.module._has_any_global_hook():  # type: ignore[no-untyped-call]
        return True
    for module in modules:
        own = vars(module)
        hooks = own["_forward_hooks"] or own["_forward_pre_hooks"]
        if hooks or own["_backward_hooks"] or own["_backward_pre_hooks"]:
            return True
        if "forward" in own or module._compiled_call_impl:
            return True
    return False


def _twin(module: nn.Module, made: dict[int, Any]) -> nn.Module:
    """Return a module of the same names and shapes, that holds no numbers and shares the rest.

    No deep copy: what users keep in a module (outputs, locks, open files) need not allow it.
    """
    if id(module) not in made:
        twin = made[id(module)] = copy.copy(module)
        twin._load_state_dict_post_hooks = OrderedDict()  # it is the load itself that they follow
        for kind in ("_parameters", "_buffers"):
            tensors = vars(module)[kind].items()
            vars(twin)[kind] = {n: t if t is None else _hollow(t, made) for n, t in tensors}
        children = module._modules.items()
        twin._modules = {n: m if m is None else _twin(m, made) for n, m in children}
    done: nn.Module = made[id(module)]
    return done


def _hollow(tensor: Tensor, made: dict[int, Any]) -> Tensor:
    """Return a tensor like the given one that holds no numbers."""
    if is_lazy(tensor):
        return tensor  # it holds none
    if id(tensor) not in made:
        meta = torch.empty_like(tensor, device="meta")
        parameter = isinstance(tensor, nn.Parameter)
        made[id(tensor)] = nn.Parameter(meta, tensor.requires_grad) if parameter else meta
    hollow: Tensor = made[id(tensor)]
    return hollow


def token_parameter(num_tokens: int, embed_dim: int) -> nn.Parameter:
    """Return a trainable ``(1, num_tokens, embed_dim)``, normal with standard deviation 0.02."""
    return nn.Parameter(nn.init.trunc_normal_(torch.empty(1, num_tokens, embed_dim), std=0.02))
