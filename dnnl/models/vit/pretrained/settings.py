"""The settings of another library's model that names and shapes of tensors do not determine."""

import re
import warnings
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

from dnnl.models.vit.checks import as_int, as_pair, grid_shape
from dnnl.models.vit.config import ViTConfig
from dnnl.models.vit.pretrained.files import CheckpointError
from dnnl.models.vit.pretrained.layouts import (
    CLIP,
    JAX,
    LAYER,
    PATCH,
    TIMM,
    TOKENS,
    first_few,
)
from dnnl.models.vit.pretrained.parameters import Parameters
from dnnl.models.vit.pretrained.preprocess import Preprocess, from_timm, from_transformers

# Tables 1 of the ViT and DeiT papers: heads are 64 wide, but in ViT-H (1280) 80.
_WIDEST, _HEAD_WIDTH, _HEADS_OF_HUGE = 1024, 64, {1280: 16}
_HF_HEADS = 12  # the default of transformers in every configuration of these models
_HEADS_OF = {"vit_base_patch16_gap_224": 16}  # the one ViT of timm that has others

_POOLS = {"token": "cls", "avg": "mean", "max": "max"}  # timm's words
_ACTIVATIONS = {
    "gelu": "gelu",
    "quick_gelu": "quick_gelu",
    "quickgelu": "quick_gelu",
    "gelu_new": "gelu_tanh",
    "gelu_pytorch_tanh": "gelu_tanh",
    "gelu_tanh": "gelu_tanh",
    "relu": "relu",
    "silu": "silu",
    "swish": "silu",
}
LAYER_0 = "backbone.encoder.layers.0."

# The arguments of timm's VisionTransformer that are read here, leave a trace in the names, or have
# no effect outside training; with any other argument the function may be another one.
_TIMM_ARGUMENTS = {
    *("img_size", "patch_size", "in_chans", "num_classes", "global_pool", "embed_dim", "depth"),
    *("num_heads", "mlp_ratio", "qkv_bias", "init_values", "class_token", "no_embed_class"),
    *("reg_tokens", "pre_norm", "final_norm", "fc_norm", "dynamic_img_size", "norm_layer"),
    *("act_layer", "weight_init", "fix_init", "drop_rate", "pos_drop_rate", "patch_drop_rate"),
    *("proj_drop_rate", "attn_drop_rate", "drop_path_rate", "pos_embed", "qk_norm", "proj_bias"),
    *("scale_attn_norm", "scale_mlp_norm"),
}


@dataclass
class Settings:
    """A setting is a keyword of the caller, else from the configuration, else a rule."""

    parameters: Parameters
    keywords: Mapping[str, Any]
    config_json: Mapping[str, Any]

    def __post_init__(self) -> None:
        """Choose the part of the configuration that belongs to this layout, or refuse it."""
        layout = self.parameters.layout
        transformers = bool(layout.model_types)
        self.hf = (
            _mapping(self.config_json.get("vision_config", self.config_json))
            if transformers
            else {}
        )
        self.timm = self.config_json if layout.patch == TIMM.patch else {}
        self.timm_args = _mapping(self.timm.get("model_args"))
        self._refuse_other_models()

    def _refuse_other_models(self) -> None:
        """Raise if the configuration is of a model that computes something else."""
        kind = self.config_json.get("model_type") if self.parameters.layout.model_types else None
        if kind is not None and kind not in self.parameters.layout.model_types:
            raise CheckpointError(f"{self.title}: model_type {kind!r} is not supported.")
        # Some of timm's models differ from a ViT in what leaves no trace in names and shapes:
        # rotary positions, the approximate GELU of SigLIP, norms behind the layers (rpn).
        name = str(self.timm.get("architecture", "vit_"))
        if not re.match("(vit|deit3?|flexivit)_", name) or re.search("rope|siglip|rpn", name):
            raise CheckpointError(f"{self.title}: {name} is not a plain ViT.")
        for key, value in {**_only(self.timm, "pool_include_prefix"), **self.timm_args}.items():
            if value and key not in _TIMM_ARGUMENTS:
                raise CheckpointError(f"{self.title}: {key}={value!r} is not supported.")

    @property
    def title(self) -> str:
        """The name of the checkpoint in messages."""
        return self.parameters.checkpoint.title

    def patch_size(self) -> tuple[int, int]:
        """Return ``(height, width)`` of a patch."""
        _, _, height, width = self.parameters.shape(PATCH, dims=4)
        return height, width

    def config(self, old_grid: tuple[int, int], patch_size: tuple[int, int]) -> ViTConfig:
        """Return the settings of the whole model."""
        parameters, layout = self.parameters, self.parameters.layout
        dim, channels, *_ = parameters.shape(PATCH, dims=4)
        prefix = parameters.shape(TOKENS, dims=3)[1] if TOKENS in parameters.sources else 0
        classes = self.keywords["num_classes"]
        dynamic = self.keywords["dynamic_image_size"]
        size = self.keywords["image_size"]
        if size is None:
            size = (old_grid[0] * patch_size[0], old_grid[1] * patch_size[1])
        self._check_keywords(dim, patch_size)
        with errors_of(self.title):
            return ViTConfig(
                image_size=size,
                patch_size=patch_size,
                in_channels=channels,
                num_classes=parameters.num_classes if classes is None else classes,
                embed_dim=dim,
                num_heads=self.heads(dim),
                num_layers=self.layers(),
                hidden_dim=parameters.shape(LAYER_0 + "mlp.net.0.weight", dims=2)[0],
                pool=self.pool(),
                distillation=parameters.has("head.head_dist."),
                num_prefix_tokens=prefix,
                dynamic_image_size=layout.dynamic if dynamic is None else dynamic,
                resize=layout.resize,
                norm_eps=self.eps(),
                activation=self.activation(),
                pre_norm=parameters.has("backbone.pre_norm."),
                final_norm=parameters.final_norm,
                fc_norm=parameters.has("head.fc_norm."),
            )

    def _check_keywords(self, dim: int, patch_size: tuple[int, int]) -> None:
        """Raise the errors of :class:`ViTConfig` for what the caller gave, before the file's."""
        names = ("image_size", "num_classes", "num_heads", "pool", "activation")
        given = {n: self.keywords[n] for n in names if self.keywords[n] is not None}
        default = {"image_size": patch_size, "num_heads": 1}
        ViTConfig(**{**default, **given, "embed_dim": dim, "patch_size": patch_size})

    def heads(self, dim: int) -> int:
        """Return how many attention heads share the width ``dim``."""
        name, wanted = LAYER_0 + "attn.qkv.weight", self.keywords["num_heads"]
        if self.parameters.layout is JAX and name in self.parameters.sources:
            shape = self.parameters.checkpoint.shapes[self.parameters.sources[name][0]]
            if len(shape) != 3 or wanted not in (None, shape[1]):
                raise CheckpointError(
                    f"{self.title}: expected attention of shape (D, heads, width), but got {shape}."
                )
            return shape[1]
        for heads in (
            wanted,
            self.hf.get("num_attention_heads", _HF_HEADS if self.hf else None),
            self.timm_args.get("num_heads"),
            _HEADS_OF.get(str(self.timm.get("architecture"))),
            _HEADS_OF_HUGE.get(dim),
        ):
            if heads is not None:
                return as_int(heads, "num_heads")
        if dim > _WIDEST or dim % _HEAD_WIDTH:
            raise CheckpointError(
                f"{self.title}: cannot infer num_heads for embed_dim {dim}: "
                "pass num_heads= or config=."
            )
        return dim // _HEAD_WIDTH

    def layers(self) -> int:
        """Return how many layers there are, if all are of one kind and none was lost."""
        kinds: dict[str, int] = {}
        for ours in self.parameters.sources:
            if LAYER.match(ours):
                kind = LAYER.sub("", ours)
                kinds[kind] = kinds.get(kind, 0) + 1
        found = max(kinds.values(), default=0)
        if fewer := [kind for kind, number in kinds.items() if number < found]:
            raise CheckpointError(f"{self.title}: not every layer has {first_few(fewer)}.")
        expected = self.hf.get("num_hidden_layers", self.timm_args.get("depth"))
        if expected not in (None, found):
            raise CheckpointError(
                f"{self.title}: it has {found} layers, but its configuration says {expected}."
            )
        return found

    def eps(self) -> float:
        """Return the epsilon of the layer norms."""
        eps = self.keywords["norm_eps"]
        if eps is None:
            if "norm_layer" in self.timm_args:
                raise CheckpointError(
                    f"{self.title}: this model uses a custom norm layer; pass norm_eps=..."
                )
            rule = self.parameters.layout.norm_eps
            if self.parameters.has("backbone.pre_norm.") and "clip" in str(
                self.timm.get("architecture", "clip")
            ):
                rule = CLIP.norm_eps
            if self.config_json.get("model_type") == "vit_msn":
                rule = 1e-6
            eps = self.hf.get("layer_norm_eps", rule)
        if not isinstance(eps, (int, float)) or isinstance(eps, bool) or not 0 < eps < 1e9:
            raise CheckpointError(f"{self.title}: expected a positive norm_eps, but got {eps!r}.")
        return float(eps)

    def activation(self) -> str:
        """Return the activation of the MLP by our name."""
        if self.keywords["activation"] is not None:
            return self.keywords["activation"]
        rule = self.parameters.layout.activation
        if "quickgelu" in str(self.timm.get("architecture")):
            rule = "quick_gelu"
        name = self.hf.get("hidden_act", self.timm_args.get("act_layer", rule))
        if not isinstance(name, str) or name not in _ACTIVATIONS:
            raise CheckpointError(f"{self.title}: the activation {name!r} is not supported.")
        return _ACTIVATIONS[name]

    def pool(self) -> str:
        """Return what the head reads, by our name."""
        if self.keywords["pool"] is not None:
            return self.keywords["pool"]
        if not self.parameters.num_classes and not self.keywords["num_classes"]:
            return "cls"  # without a head it has no effect
        name = self.timm.get("global_pool", self.timm_args.get("global_pool"))
        if name is None:
            tokens = self.parameters.sources.get(TOKENS, [])
            has_class = any(re.search(r"(cls|class)(_token|_embedding)?$", n) for n in tokens)
            return "cls" if has_class and not self.parameters.has("head.fc_norm.") else "mean"
        if not isinstance(name, str) or name not in _POOLS:
            raise CheckpointError(f"{self.title}: the pool {name!r} is not supported.")
        return _POOLS[name]

    def grid(self, patch_size: tuple[int, int]) -> tuple[int, int] | None:
        """Return the grid of the checkpoint's own table, or None if it is not given."""
        if self.keywords["grid_size"] is not None:
            return as_pair(self.keywords["grid_size"], "grid_size")
        size = self.hf.get("image_size", self.timm_args.get("img_size"))
        if size is None:
            sizes = _mapping(self.timm.get("pretrained_cfg")).get("input_size")
            size = sizes[1:] if isinstance(sizes, list) and None not in sizes else None
        if size is None:
            return None
        with errors_of(self.title):
            return grid_shape(as_pair(size, "image_size"), patch_size)

    def preprocess(self, image_size: tuple[int, int]) -> Preprocess | None:
        """Return what the checkpoint does to a photograph, or None if it does not say it."""
        file = self.parameters.checkpoint.preprocessor
        timm = _mapping(self.timm.get("pretrained_cfg"))
        try:
            if file is not None and self.parameters.layout.model_types:
                found = from_transformers(file)
            elif _is_size(timm.get("input_size")):
                found = from_timm(timm).for_size(image_size)
            else:
                return None
        except (KeyError, TypeError, ValueError, OverflowError) as error:
            warnings.warn(
                f"{self.title}: its preprocessing is not supported ({error}), so that "
                "model.preprocess is None.",
                stacklevel=4,
            )
            return None
        if self.keywords["image_size"] is not None:
            return found.for_size(image_size)
        return found

    def labels(self, num_classes: int) -> tuple[str, ...]:
        """Return the names of the classes, or nothing unless every class has one."""
        if not num_classes or num_classes != self.parameters.num_classes:
            return ()
        names: Any = self.config_json.get("id2label")
        if isinstance(names, Mapping):
            names = [names.get(str(i), names.get(i)) for i in range(num_classes)]
        else:
            timm = {**_mapping(self.timm.get("pretrained_cfg")), **self.timm}
            names, texts = timm.get("label_names"), timm.get("label_descriptions")
            if isinstance(names, list) and isinstance(texts, Mapping):
                names = [texts.get(n, n) if isinstance(n, str) else n for n in names]
        ok = isinstance(names, list) and len(names) == num_classes
        return tuple(names) if ok and all(isinstance(name, str) for name in names) else ()


def _mapping(value: Any) -> Mapping[str, Any]:
    return value if isinstance(value, Mapping) else {}


def _is_size(value: Any) -> bool:
    """Whether a value of ``input_size`` says channels, height and width."""
    return (
        isinstance(value, (list, tuple)) and len(value) == 3 and all(type(n) is int for n in value)
    )


def _only(mapping: Mapping[str, Any], *keys: str) -> dict[str, Any]:
    return {key: mapping[key] for key in keys if key in mapping}


@contextmanager
def errors_of(title: str) -> Iterator[None]:
    """Re-raise what a configuration or shapes make impossible as a CheckpointError."""
    try:
        yield
    except CheckpointError:
        raise
    except (ValueError, OverflowError) as error:
        raise CheckpointError(f"{title}: {error}") from error
