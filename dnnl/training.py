"""Train the chapter's model: ``python -m dnnl.training``, or the same under ``torchrun``.

A step depends on the seed and on its own number alone, never on what was drawn before it or on how
many processes share the batch. So a run that was killed continues from its last checkpoint, on any
number of processes, as if nothing had happened.
"""

import argparse
import math
import os
import signal
import sys
import threading
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

import torch
import torch.distributed as dist
import torch.nn.functional as F
from torch import Tensor, nn
from torch.nn.parallel import DistributedDataParallel

import dnnl
from dnnl._extras import needs_extra
from dnnl.models.vit.checks import as_int, grid_shape

with needs_extra("train", "dnnl.training"):
    import numpy as np
    from tqdm import tqdm

    from dnnl import data
    from dnnl._safetensors import check_finite, check_writable, read_safetensors, write_safetensors
    from dnnl.chapter_model import ChapterModel

CHECKPOINT = "dnnl-training-checkpoint/2"  # 1 did not record the pixels of the photographs
_MOMENTS = ("step", "exp_avg", "exp_avg_sq")  # what AdamW keeps of a parameter
_EVALUATION_SEED = 1_000_003  # far from any step of any run, so that no crop was trained on


@dataclass(frozen=True)
class Recipe:
    """Everything that decides what a training run computes.

    Attributes:
        steps: how many updates.
        batch_size: crops an update, over all processes.
        image_size, patch_size: side of a crop and of a patch, in pixels.
        embed_dim, num_heads, num_layers, hidden_dim: the encoder.
        mask_ratio: the share of patches that is hidden. Every eighth crop of a batch stays whole.
        class_weight: weight of the loss that names the photograph, beside the reconstruction.
        learning_rate: its highest value, after a tenth of the steps.
        weight_decay: for all parameters but class token, mask token and positions.
        mix: mix crops for the naming: "none", "mixup" (arXiv:1710.09412) or "cutmix"
            (arXiv:1905.04899).
        seed: of the first weights and of every batch.
    """

    steps: int = 2400
    batch_size: int = 32
    image_size: int = 56
    patch_size: int = 4
    embed_dim: int = 64
    num_heads: int = 4
    num_layers: int = 2
    hidden_dim: int = 256
    mask_ratio: float = 0.6
    class_weight: float = 0.1
    learning_rate: float = 3e-3
    weight_decay: float = 0.02
    mix: str = "none"
    seed: int = 0

    def __post_init__(self) -> None:
        """Refuse what cannot be trained, before any work.

        Raises:
            ValueError: naming what was expected and what came.
        """
        for name in ("steps", "batch_size", "image_size", "patch_size", "embed_dim", "num_heads"):
            as_int(getattr(self, name), name)
        as_int(self.hidden_dim, "hidden_dim")
        as_int(self.num_layers, "num_layers", minimum=0)
        as_int(self.seed, "seed", minimum=0)
        for name in ("mask_ratio", "class_weight", "learning_rate", "weight_decay"):
            value = getattr(self, name)
            if not isinstance(value, (int, float)) or not 0 <= value < math.inf:
                raise ValueError(f"Expected a finite {name} of at least 0, but got {value!r}.")
        grid_shape((self.image_size,) * 2, (self.patch_size,) * 2, "a crop")
        if not 1 <= self.hidden < self.patches:
            raise ValueError(
                f"Expected a mask_ratio that hides some of {self.patches} patches and leaves some, "
                f"but got {self.mask_ratio}."
            )
        if not self.learning_rate:
            raise ValueError(f"Expected a positive learning_rate, but got {self.learning_rate}.")
        if self.mix not in ("none", "mixup", "cutmix"):
            raise ValueError(f"Expected mix none, mixup or cutmix, but got {self.mix!r}.")

    @property
    def patches(self) -> int:
        """How many patches a crop has."""
        return (self.image_size // self.patch_size) ** 2

    @property
    def hidden(self) -> int:
        """How many of them are hidden."""
        return int(self.patches * self.mask_ratio)

    def rate(self, step: int) -> float:
        """Return the learning rate of a step: a linear warm-up, then half a cosine down to 0."""
        warm_up = max(1, self.steps // 10)
        if step < warm_up:
            return self.learning_rate * (step + 1) / warm_up
        done = (step - warm_up) / max(1, self.steps - warm_up)
        return self.learning_rate * (1 + math.cos(math.pi * done)) / 2


@dataclass
class Batch:
    """Crops with what they are, and which of their patches are hidden.

    Attributes:
        x: crops ``(B, 3, H, W)`` in [0, 1].
        y: soft labels ``(B, K)``.
        mask: ``(B, N)``, True where hidden.
        hidden: how many patches are hidden; in a share of a batch, how many on average.
    """

    x: Tensor
    y: Tensor
    mask: Tensor
    hidden: float

    def share(self, rank: int, world: int, device: torch.device) -> "Batch":
        """Return the part of one of ``world`` processes, on its device."""
        x, y, mask = (t.chunk(world)[rank].to(device) for t in (self.x, self.y, self.mask))
        return Batch(x, y, mask, self.hidden / world)


def draw(recipe: Recipe, images: Mapping[str, Tensor], step: int) -> Batch:
    """Return the batch of a step: a pure function of the recipe, the photographs and the step."""
    # torch's generator looks at 32 bits of a seed only; this mixes both numbers into them.
    mixed = np.random.SeedSequence((recipe.seed, step)).generate_state(1)[0]
    generator = torch.Generator().manual_seed(int(mixed))
    size, count = recipe.image_size, recipe.batch_size
    x, label = data.crops(images, count, size, generator, flip=True)
    y = F.one_hot(label, len(images)).float()
    if recipe.mix != "none":
        x, y = _mix(x, y, recipe.mix, generator)
    order = torch.rand((count, recipe.patches), generator=generator).argsort(dim=1)
    mask = order < recipe.hidden
    mask[7::8] = False  # so that whole crops, too, learn their name
    return Batch(x, y, mask, int(mask.sum()))


def _mix(x: Tensor, y: Tensor, kind: str, generator: torch.Generator) -> tuple[Tensor, Tensor]:
    """Blend each crop with the next one (mixup), or paste a box of the next into it (cutmix)."""
    keep = torch.rand((), generator=generator).item()
    if kind == "mixup":
        x = keep * x + (1 - keep) * x.roll(1, 0)
    else:
        height, width = x.shape[-2:]
        h, w = (round(n * math.sqrt(1 - keep)) for n in (height, width))
        top = int(torch.randint(height - h + 1, (), generator=generator))
        left = int(torch.randint(width - w + 1, (), generator=generator))
        box = (..., slice(top, top + h), slice(left, left + w))
        x, other = x.clone(), x.roll(1, 0)
        x[box] = other[box]
        keep = 1 - h * w / (height * width)
    return x, keep * y + (1 - keep) * y.roll(1, 0)


class Objective(nn.Module):
    """The loss as a module, so that DistributedDataParallel can wrap it.

    Args:
        model: what is trained.
        class_weight: as in :class:`Recipe`.
    """

    def __init__(self, model: ChapterModel, class_weight: float) -> None:
        super().__init__()
        self.model, self.class_weight = model, class_weight

    def forward(self, batch: Batch) -> tuple[Tensor, Tensor]:
        """Return the loss, and the mean squared error over hidden patches (detached).

        It is divided by the average number of hidden patches in a share, not by the share's own,
        so that the mean over processes is the error of the whole batch.
        """
        tokens = self.model.encode(batch.x, batch.mask)
        patches = self.model.decoder(tokens[:, 1:])[batch.mask]
        target = self.model.standardize(batch.x)[batch.mask]
        error = (patches - target).square().mean(dim=-1).sum() / batch.hidden
        naming = F.cross_entropy(self.model.vit.head(tokens), batch.y)
        return error + self.class_weight * naming, error.detach()


def make_optimizer(model: ChapterModel, recipe: Recipe) -> torch.optim.AdamW:
    """Return AdamW that decays everything but class token, mask token and positions."""
    never = model.no_weight_decay() | {"mask_token"}
    named = list(model.named_parameters())
    groups: list[dict[str, Any]] = [
        {"params": [p for n, p in named if n not in never]},
        {"params": [p for n, p in named if n in never], "weight_decay": 0.0},
    ]
    return torch.optim.AdamW(
        groups, lr=recipe.learning_rate, betas=(0.9, 0.95), weight_decay=recipe.weight_decay
    )


@torch.no_grad()
def evaluate(
    model: ChapterModel, images: Mapping[str, Tensor], recipe: Recipe, *, count: int = 256
) -> dict[str, float]:
    """Measure a model on crops that no step of a training run draws.

    Returns:
        dict[str, float]: ``masked_error``, the mean squared error over hidden patches; the same
        with the table of positions zeroed and shuffled; and ``accuracy`` in naming whole crops.
    """
    held_out = Recipe(**{**asdict(recipe), "batch_size": count, "mix": "none", "seed": 0})
    model = model.eval()
    device = model.mask_token.device
    batch = draw(held_out, images, _EVALUATION_SEED).share(0, 1, device)
    target = model.standardize(batch.x)
    table = model.embedding.pos_embed.pos_embed
    order = torch.randperm(recipe.patches, generator=torch.Generator().manual_seed(0)) + 1
    order = torch.cat([torch.zeros(1, dtype=torch.long), order]).to(device)
    tables = {
        "masked_error": table,
        "zeroed_error": torch.zeros_like(table),
        "shuffled_error": table[:, order],
    }
    results = {
        name: F.mse_loss(
            model.reconstruct(batch.x, batch.mask, t)[batch.mask], target[batch.mask]
        ).item()
        for name, t in tables.items()
    }
    right = model(batch.x).argmax(1) == batch.y.argmax(1)
    return {**results, "accuracy": right.float().mean().item()}


@dataclass
class State:
    """A training run between two steps.

    Attributes:
        recipe, photographs: what is trained, on what.
        pixels: name → a summary of each photograph, from the first :meth:`recognize` on.
        model, optimizer: as they are now.
        step: how many steps are done.
        history: ``[step, masked error]``, now and then.
    """

    recipe: Recipe
    photographs: tuple[str, ...]
    model: ChapterModel
    optimizer: torch.optim.AdamW
    step: int = 0
    history: list[list[float]] = field(default_factory=list)
    pixels: dict[str, list[float]] = field(default_factory=dict)

    @classmethod
    def start(cls, recipe: Recipe, photographs: tuple[str, ...], device: torch.device) -> "State":
        """Return the state before the first step; the global random numbers stay untouched."""
        with torch.random.fork_rng(devices=[]):
            torch.manual_seed(recipe.seed)
            model = ChapterModel(
                photographs,
                image_size=recipe.image_size,
                patch_size=recipe.patch_size,
                embed_dim=recipe.embed_dim,
                num_heads=recipe.num_heads,
                num_layers=recipe.num_layers,
                hidden_dim=recipe.hidden_dim,
            )
        model = model.to(device)
        return cls(recipe, photographs, model, make_optimizer(model, recipe))

    def recognize(self, images: Mapping[str, Tensor]) -> None:
        """Note what the photographs look like, or compare them with what was noted before.

        Checkpoints keep the notes, so that a run does not continue on other pictures.

        Raises:
            ValueError: if they are other photographs.
        """
        if tuple(images) != self.photographs:
            raise ValueError(f"Expected the photographs {self.photographs}, but got {(*images,)}.")
        pixels = {name: _summary(image) for name, image in images.items()}
        if other := _first_difference(self.pixels, pixels):
            raise ValueError(f"The photograph {other!r} is not the one that this run began with.")
        self.pixels = self.pixels or pixels

    def save(self, path: Path) -> None:
        """Write the run to a file, which is replaced as a whole, or stays as it was.

        Raises:
            ValueError: if a number in it is not finite.
            OSError: if the file cannot be written.
        """
        tensors = {f"model.{n}": t.detach().cpu() for n, t in self.model.state_dict().items()}
        for name, parameter in self.model.named_parameters():
            for key, value in self.optimizer.state[parameter].items():
                tensors[f"optimizer.{key}.{name}"] = value.detach().cpu().clone()
        check_finite(tensors, f"Cannot save {path}")
        about = {
            "step": self.step,
            "history": self.history,
            "pixels": self.pixels,
            **self._identity(),
        }
        write_safetensors(path, tensors, CHECKPOINT, about)

    def load(self, path: Path) -> None:
        """Continue from a file that :meth:`save` wrote, on any device and number of processes.

        Raises:
            FileNotFoundError: if the file does not exist.
            ValueError: if the file is damaged, holds something else, or is of another run; then
                nothing has changed.
        """
        try:
            tensors, about = read_safetensors(path, CHECKPOINT)
            self._check(tensors, about)
        except ValueError as error:
            raise ValueError(
                f"Cannot continue from the checkpoint {path}. {error} Give --checkpoint another "
                "name, or --fresh."
            ) from None
        step = about["step"]
        state = {
            i: {key: tensors[f"optimizer.{key}.{name}"] for key in _MOMENTS}
            for i, (name, _) in enumerate(self._in_order())
            if step
        }
        self.model.load_state_dict(
            {name: tensors[f"model.{name}"] for name in self.model.state_dict()}
        )
        groups = self.optimizer.state_dict()["param_groups"]
        self.optimizer.load_state_dict({"state": state, "param_groups": groups})
        self.step, self.history = step, about["history"]
        self.pixels = self.pixels or about["pixels"]

    def _check(self, tensors: Mapping[str, Tensor], about: Mapping[str, Any]) -> None:
        """Raise ValueError unless a checkpoint is whole and of this run."""
        for key, own in self._identity().items():
            if about.get(key) != own:
                raise ValueError(
                    f"It is of another run: its {key} is {about.get(key)}, but {own} was asked for."
                )
        step, history = about.get("step"), about.get("history")
        if type(step) is not int or not 0 <= step <= self.recipe.steps:
            raise ValueError(f"Expected a step from 0 to {self.recipe.steps}, but got {step!r}.")
        if not isinstance(history, list) or not all(map(_is_record, history)):
            raise ValueError("Expected a list of pairs [step, error] as its history.")
        pixels = about.get("pixels")
        if not isinstance(pixels, dict) or not all(map(_is_summary, pixels.values())):
            raise ValueError("Expected lists of numbers by name as its pixels.")
        if other := _first_difference(self.pixels, pixels):
            raise ValueError(f"It is of another run: its photograph {other!r} shows another image.")
        found = {name: (t.shape, t.dtype) for name, t in tensors.items()}
        expected = self._layout(step)
        for name in sorted(found.keys() | expected.keys()):
            if found.get(name) != expected.get(name):
                raise ValueError(
                    f"Expected {name} with shape and dtype {expected.get(name)}, "
                    f"but got {found.get(name)}."
                )
        check_finite(tensors, "It is damaged")

    def _layout(self, step: int) -> dict[str, tuple[torch.Size, torch.dtype]]:
        """Return shape and dtype of every tensor of a checkpoint, by name.

        Before the first step the optimizer has no state.
        """
        layout = {f"model.{n}": (t.shape, t.dtype) for n, t in self.model.state_dict().items()}
        for name, p in self.model.named_parameters() if step else ():
            layout |= {f"optimizer.{key}.{name}": (p.shape, p.dtype) for key in _MOMENTS}
            layout[f"optimizer.step.{name}"] = (torch.Size(), torch.float32)
        return layout

    def _identity(self) -> dict[str, object]:
        return {
            "recipe": asdict(self.recipe),
            "photographs": list(self.photographs),
        }

    def _in_order(self) -> list[tuple[str, nn.Parameter]]:
        """Name the parameters in the order in which the optimizer numbers them."""
        names = {p: n for n, p in self.model.named_parameters()}
        return [(names[p], p) for group in self.optimizer.param_groups for p in group["params"]]


def _summary(image: Tensor) -> list[float]:
    """Return height, width and the means of an 8×8 grid: alike on machines that round otherwise."""
    means = F.adaptive_avg_pool2d(image[None], 8).flatten().tolist()
    return [*map(float, image.shape[1:]), *(round(mean, 5) for mean in means)]


def _first_difference(one: Mapping[str, list[float]], two: Mapping[str, list[float]]) -> str | None:
    """Return the name of a photograph whose summaries differ; None if there is no such name."""
    for name in one.keys() & two.keys():
        a, b = one[name], two[name]
        if len(a) != len(b) or not all(abs(x - y) < 1e-3 for x, y in zip(a, b, strict=True)):
            return name
    return None


def _is_summary(value: object) -> bool:
    return isinstance(value, list) and all(type(n) is float for n in value)


def _is_record(record: object) -> bool:
    """Whether an entry of a history is ``[step, finite error]``."""
    return (
        isinstance(record, list)
        and [type(n) for n in record] in ([int, float], [int, int])
        and all(map(math.isfinite, record))
    )


def train(
    state: State,
    images: Mapping[str, Tensor],
    *,
    checkpoint: Path | None = None,
    checkpoint_every: int = 100,
    progress: bool = True,
) -> None:
    """Train from a state to the end of its recipe, in place.

    In a process group (``torchrun``) each process computes its part of every batch, gradients are
    averaged, and the first process writes the checkpoints.

    Args:
        state: where to start; it is moved on.
        images: photographs by name.
        checkpoint: where to keep the run between steps; None keeps it nowhere.
        checkpoint_every: after how many steps.
        progress: show a bar, if the output is a terminal.

    Raises:
        ValueError: if the images are not those that the run began with.
        FloatingPointError: at the first loss or gradient that is not finite; no file has been
            written since.
    """
    state.recognize(images)
    recipe, model = state.recipe, state.model
    device = model.mask_token.device
    rank, world = _place()
    objective: nn.Module = Objective(model, recipe.class_weight).train()
    if world > 1:
        objective = DistributedDataParallel(objective)
    hide = None if progress and rank == 0 else True  # None: hidden unless on a terminal
    with tqdm(total=recipe.steps, initial=state.step, disable=hide, unit="step") as bar:
        while state.step < recipe.steps:
            for group in state.optimizer.param_groups:
                group["lr"] = recipe.rate(state.step)
            batch = draw(recipe, images, state.step).share(rank, world, device)
            loss, error = objective(batch)
            means = torch.stack([loss.detach(), error])
            if world > 1:  # every step, so that all processes stop at the same one
                dist.all_reduce(means)
            mean_loss, mean_error = (means / world).tolist()
            _check_number(mean_loss, "loss", state.step)
            state.optimizer.zero_grad()
            loss.backward()
            norm = nn.utils.clip_grad_norm_(model.parameters(), 1.0)
            _check_number(norm.item(), "norm of the gradient", state.step)
            state.optimizer.step()
            if state.step % max(1, recipe.steps // 100) == 0:
                state.history.append([state.step, round(mean_error, 4)])
                bar.set_postfix(masked_error=f"{state.history[-1][1]:.3f}")
            state.step += 1
            bar.update()
            if checkpoint and rank == 0 and state.step % checkpoint_every == 0:
                state.save(checkpoint)
    model.eval()


def _check_number(value: float, name: str, step: int) -> None:
    if not math.isfinite(value):
        raise FloatingPointError(
            f"The {name} of step {step} is {value}: the run has diverged and stops. "
            "Try a smaller learning_rate."
        )


def _place() -> tuple[int, int]:
    """Return the rank of this process, and how many there are."""
    return (dist.get_rank(), dist.get_world_size()) if dist.is_initialized() else (0, 1)


def _arguments(argv: list[str] | None) -> tuple[Recipe, argparse.Namespace]:
    """Read the command line: one option for each field of the recipe, and the files."""
    parser = argparse.ArgumentParser(prog="python -m dnnl.training", description=__doc__)
    parser.add_argument("--out", type=Path, default=Path("chapter.safetensors"), help="the weights")
    parser.add_argument("--photographs", type=Path, help="a folder of your own photographs")
    parser.add_argument("--checkpoint", type=Path, help="default: the weights' name + .checkpoint")
    parser.add_argument("--checkpoint-every", type=int, default=100, metavar="STEPS")
    parser.add_argument("--fresh", action="store_true", help="ignore an existing checkpoint")
    for name, default in asdict(Recipe()).items():
        option = "--" + name.replace("_", "-")
        parser.add_argument(option, type=type(default), default=default, help=f"default: {default}")
    given = parser.parse_args(argv)
    if given.checkpoint is None:
        given.checkpoint = Path(f"{given.out}.checkpoint")
    try:
        recipe = Recipe(**{name: getattr(given, name) for name in asdict(Recipe())})
        as_int(given.checkpoint_every, "checkpoint_every")
        given.device = dnnl.device()
        for path in (given.out, given.checkpoint):
            _check_output(path)
        if _same_file(given.out, given.checkpoint):
            raise ValueError(
                f"Expected two files, but --out {given.out} and --checkpoint {given.checkpoint} "
                "are the same: the checkpoint is deleted at the end."
            )
    except (ValueError, OSError, RuntimeError) as error:
        parser.error(str(error))
    return recipe, given


def _check_output(path: Path) -> None:
    """Raise unless weights can be written there."""
    try:
        str(path).encode()
    except UnicodeEncodeError:
        raise ValueError(f"Expected a file name in UTF-8, but got {str(path)!r}.") from None
    if path.suffix.lower() in data.ENDINGS:
        raise ValueError(f"Expected a file for weights, but {path} has the name of a photograph.")
    check_writable(path)


def _same_file(one: Path, other: Path) -> bool:
    """Whether two paths lead to one file, which need not exist yet: by name or by a link."""
    if one.exists() and other.exists():
        return one.samefile(other)
    return one.resolve() == other.resolve()


def main(argv: list[str] | None = None) -> int:
    """Train, measure and save; return the exit status."""
    recipe, given = _arguments(argv)
    main_thread = threading.current_thread() is threading.main_thread()
    before = signal.signal(signal.SIGTERM, _terminate) if main_thread else None
    try:
        device = _join(given.device)
        return _run(recipe, given, device)
    except (ValueError, OSError, FloatingPointError) as error:
        print(f"python -m dnnl.training: error: {error}", file=sys.stderr)
        return 2
    finally:
        if main_thread:
            signal.signal(signal.SIGTERM, before or signal.SIG_DFL)
        if dist.is_initialized():
            dist.destroy_process_group()


def _terminate(number: int, _: object) -> None:
    """End by an exception, so that a temporary file is removed on the way."""
    raise SystemExit(128 + number)


def _join(device: torch.device) -> torch.device:
    """Join the processes that ``torchrun`` started, if it did; return the device to use.

    Raises:
        ValueError: if the environment is incomplete or wrong.
        OSError: if the processes do not find one another.
    """
    if "RANK" not in os.environ:
        return device
    for name in ("WORLD_SIZE", "MASTER_ADDR", "MASTER_PORT"):
        if not os.environ.get(name):
            raise ValueError(
                f"RANK is set, but {name} is not: start several processes with torchrun, or "
                "remove RANK from the environment."
            )
    try:
        if device.type == "cuda":
            device = torch.device("cuda", int(os.environ.get("LOCAL_RANK", 0)))
            torch.cuda.set_device(device)
        dist.init_process_group("nccl" if device.type == "cuda" else "gloo")
    except RuntimeError as error:
        raise OSError(f"Cannot join the other processes: {error}") from error
    return device


def _run(recipe: Recipe, given: argparse.Namespace, device: torch.device) -> int:
    rank, world = _place()
    if recipe.batch_size % world:
        raise ValueError(
            f"Expected a batch_size divisible by {world} processes, but got {recipe.batch_size}."
        )
    images = data.photographs(given.photographs)
    for name, image in images.items():
        if min(image.shape[1:]) < recipe.image_size:
            raise ValueError(
                f"Expected crops of at most {min(image.shape[1:])} pixels, the shorter side of "
                f"{name!r}, but got image_size {recipe.image_size}."
            )
    state = State.start(recipe, tuple(images), device)
    state.recognize(images)
    before = evaluate(state.model, images, recipe)
    if given.checkpoint.exists() and not given.fresh:
        state.load(given.checkpoint)
        if rank == 0:
            print(f"continuing {given.checkpoint} at step {state.step} of {recipe.steps}")
    _agree(state, given.checkpoint)
    train(state, images, checkpoint=given.checkpoint, checkpoint_every=given.checkpoint_every)
    after = evaluate(state.model, images, recipe)
    for name, value in after.items():
        _check_number(value, name, state.step)
    if rank == 0:
        results = {name: round(value, 4) for name, value in after.items()}
        state.model.save(given.out, recipe=asdict(recipe), history=state.history, results=results)
        given.checkpoint.unlink(missing_ok=True)
        print(f"masked error {before['masked_error']:.3f} -> {after['masked_error']:.3f}")
        print(
            f"positions zeroed {after['zeroed_error']:.3f}, shuffled {after['shuffled_error']:.3f}"
        )
        print(f"accuracy {after['accuracy']:.3f}; weights in {given.out}")
    return 0


def _agree(state: State, checkpoint: Path) -> None:
    """Raise unless all processes have the same photographs and start at the same step."""
    if not dist.is_initialized():
        return
    states: list[Any] = [None] * dist.get_world_size()
    dist.all_gather_object(states, (state.pixels, state.step))
    for pixels, _ in states:
        if pixels.keys() != state.pixels.keys() or _first_difference(pixels, state.pixels):
            raise ValueError(
                "Expected the same photographs in all processes, but names or pixels differ."
            )
    if len({step for _, step in states}) > 1:
        raise ValueError(
            f"Expected {checkpoint} in a folder that all machines share, but the processes start "
            f"at the steps {[step for _, step in states]}."
        )


if __name__ == "__main__":
    sys.exit(main())
