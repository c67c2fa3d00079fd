"""The chapter's own model: a small ViT that fills in hidden patches and names the photograph."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

from dnnl._extras import needs_extra
from dnnl.models import vit
from dnnl.models.vit.checks import Size, as_int, check_dims
from dnnl.models.vit.embedding import token_parameter
from dnnl.models.vit.module import Module

with needs_extra("train", "dnnl.chapter_model"):
    from dnnl import data
    from dnnl._safetensors import check_finite, read_safetensors, write_safetensors

FORMAT = "dnnl-chapter-model/1"
ASSET = Path(__file__).parent / "assets" / "chapter.safetensors"
"""The shipped weights; their card is the README.md beside them."""

_SETTINGS = ("image_size", "patch_size", "embed_dim", "num_heads", "num_layers", "hidden_dim")


class ChapterModel(Module):
    """A ViT with two heads: which photograph is this a crop of, and what is under the holes?

    It is the chapter's input module and encoder, unchanged: a grid of 14×14 patches, 197 rows. A
    hidden patch is replaced by a learned mask token before the positions are added.

    Args:
        photographs: names of the photographs, one a class.
        image_size, patch_size, embed_dim, num_heads, num_layers, hidden_dim: as for
            :class:`dnnl.models.vit.ViTModel`.

    Attributes:
        photographs: the names, in the order of the logits.
        vit: :class:`dnnl.models.vit.ViTForImageClassification`, which accepts other image sizes.
        mask_token: parameter ``(1, 1, D)``.
        decoder: ``nn.Linear(D, P * P * C)``, from a token to the pixels of its patch.
        about: what the file says of a loaded model: recipe, history, results.
    """

    def __init__(
        self,
        photographs: Sequence[str],
        *,
        image_size: Size = 56,
        patch_size: Size = 4,
        embed_dim: int = 64,
        num_heads: int = 4,
        num_layers: int = 2,
        hidden_dim: int = 256,
    ) -> None:
        super().__init__()
        self.photographs = tuple(photographs)
        self.about: dict[str, Any] = {}
        self.vit = vit.ViTForImageClassification(
            image_size,
            patch_size,
            3,
            len(self.photographs),
            embed_dim,
            num_heads,
            num_layers,
            hidden_dim,
            dynamic_image_size=True,
        )
        self.mask_token = token_parameter(1, embed_dim)
        ph, pw = self.embedding.patch_embed.patch_size
        self.decoder = nn.Linear(embed_dim, ph * pw * 3)

    @property
    def config(self) -> dict[str, Any]:
        """The arguments, besides the photographs, that build the model again."""
        return {name: getattr(self.vit.config, name) for name in _SETTINGS}

    @property
    def embedding(self) -> vit.ViTEmbedding:
        """The input module."""
        return self.vit.backbone.embedding

    @property
    def encoder(self) -> vit.ViTEncoder:
        """The encoder."""
        return self.vit.backbone.encoder

    def forward(self, x: Tensor) -> Tensor:
        """Name the photograph: images ``(B, 3, H, W)`` in [0, 1] to logits ``(B, K)``."""
        return self.vit.head(self.encode(x))

    def standardize(self, x: Tensor) -> Tensor:
        """Return the target of :meth:`reconstruct`: standardised patches ``(B, N, P * P * C)``."""
        return vit.patchify(data.standardize(x), self.embedding.patch_embed.patch_size)

    def sequence(
        self, x: Tensor, mask: Tensor | None = None, pos_embed: Tensor | None = None
    ) -> Tensor:
        """Return what the encoder reads: images in [0, 1] to tokens ``(B, 1 + N, D)``.

        Args:
            x: images ``(B, 3, H, W)`` in [0, 1].
            mask: booleans ``(B, N)``; True hides a patch.
            pos_embed: a table ``(1, 1 + N, D)`` in place of the model's own.

        Raises:
            ShapeError: if the mask or the table does not fit the images.
        """
        embedding = self.embedding
        tokens = embedding.patch_embed(data.standardize(x))
        if mask is not None:
            check_dims(mask, "(B, N)", "a mask")
            if mask.dtype != torch.bool:
                raise vit.DTypeError(f"Expected a boolean mask (True hides), but got {mask.dtype}.")
            if mask.shape != tokens.shape[:2]:
                raise vit.ShapeError(
                    f"Expected a mask of shape {tuple(tokens.shape[:2])}, "
                    f"but got {tuple(mask.shape)}."
                )
            tokens = torch.where(mask[..., None], self.mask_token.to(tokens.dtype), tokens)
        tokens = embedding.add_cls_token(tokens)
        if pos_embed is None:
            grid_size = embedding.patch_embed.grid_of(x)
            return embedding.pos_embed(tokens, embedding.patch_embed.grid_size, grid_size)
        if pos_embed.shape != (1, *tokens.shape[1:]):
            raise vit.ShapeError(
                f"Expected a table of shape {(1, *tokens.shape[1:])}, "
                f"but got {tuple(pos_embed.shape)}."
            )
        return tokens + pos_embed.to(tokens.dtype)

    def encode(
        self, x: Tensor, mask: Tensor | None = None, pos_embed: Tensor | None = None
    ) -> Tensor:
        """Return the encoded tokens ``(B, 1 + N, D)``; arguments as for :meth:`sequence`."""
        return self.encoder(self.sequence(x, mask, pos_embed))

    def reconstruct(self, x: Tensor, mask: Tensor, pos_embed: Tensor | None = None) -> Tensor:
        """Fill in hidden patches.

        Args:
            x: images ``(B, 3, H, W)`` in [0, 1].
            mask: booleans ``(B, N)``; True hides a patch.
            pos_embed: a table ``(1, 1 + N, D)`` in place of the model's own: another grid's, a
                shuffled one, zeros.

        Returns:
            Tensor: patches ``(B, N, P * P * C)`` on the scale of :meth:`standardize`.

        Raises:
            ShapeError: if the mask or the table does not fit the images.
        """
        return self.decoder(self.encode(x, mask, pos_embed)[:, 1:])

    def picture(self, patches: Tensor, grid_size: Size) -> Tensor:
        """Turn standardised patches ``(B, N, P * P * C)`` into images in [0, 1]."""
        size = self.embedding.patch_embed.patch_size
        return data.unstandardize(vit.unpatchify(patches, size, grid_size)).clamp(0, 1)

    def save(self, path: str | Path, **about: Any) -> None:
        """Write the weights, in float16, and what is needed to build the model again.

        Args:
            path: the file; it is replaced as a whole, or stays as it was.
            about: further facts to keep beside the weights, such as the recipe and the results.

        Raises:
            ValueError: if a weight is not finite or too large for float16 (65504), or ``about``
                is not valid JSON.
            OSError: if the file cannot be written.
        """
        about = {**about, "config": self.config, "photographs": self.photographs}
        weights = {name: t.detach().half() for name, t in self.state_dict().items()}
        check_finite(weights, f"Cannot save {path} in float16, whose largest number is 65504")
        write_safetensors(Path(path), weights, FORMAT, about)

    @classmethod
    def load(cls, path: str | Path) -> "ChapterModel":
        """Read a model that :meth:`save` wrote, in float32 and eval mode.

        The facts that were kept beside the weights are in the attribute ``about``.

        Raises:
            FileNotFoundError: if the file does not exist.
            ValueError: if the file is damaged or holds something else.
        """
        weights, about = read_safetensors(Path(path), FORMAT)
        if not all(t.is_floating_point() for t in weights.values()):
            raise ValueError(f"The weights in {path} are not floating-point numbers.")
        weights = {name: t.float() for name, t in weights.items()}
        check_finite(weights, f"The file {path} is damaged")
        try:
            photographs, config = about["photographs"], about["config"]
            if not isinstance(photographs, list) or not all(
                isinstance(n, str) for n in photographs
            ):
                raise ValueError("the photographs are not a list of names.")
            if as_int(config["num_layers"], "num_layers", minimum=0) > len(weights):
                raise ValueError(f"there are fewer tensors than layers: {len(weights)}.")
            with torch.device("meta"):  # shapes alone: the weights of the file become the model's
                model = cls(photographs, **config)
            model.load_state_dict(weights, assign=True)
        except (KeyError, TypeError, ValueError, RuntimeError) as error:
            raise ValueError(
                f"The weights in {path} do not fit their description: {error}"
            ) from None
        model.about = about
        return model.eval()
