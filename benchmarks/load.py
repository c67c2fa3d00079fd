"""One load in a process of its own, for its memory: ``load.py WHO JSON``; called by ``run.py``."""

import json
import resource
import sys
import time
from pathlib import Path

import contestants
import torch

import dnnl.models.vit as vit


def main(who: str, argument: str) -> None:
    size = json.loads(argument)
    folder = Path(size.pop("folder"))
    theirs, ours = folder / "timm.safetensors", folder / "dnnl.pt"
    if who == "write":
        from safetensors.torch import save_file

        models = contestants.classifiers(size)
        save_file(models["timm"].state_dict(), theirs)
        torch.save(models["dnnl"].state_dict(), ours)
        return
    names = ("img_size", "patch_size", "embed_dim", "num_heads", "depth")
    options = dict(zip(names, size.values(), strict=True))
    timm = contestants.library("timm.models.vision_transformer")
    checkpoint = contestants.library("timm.models")
    before, start = _peak(), time.perf_counter()
    if who == "timm":
        checkpoint.load_checkpoint(timm.VisionTransformer(**options), str(theirs))
    elif load := getattr(vit, "load_pretrained", None):
        load(theirs, num_heads=size["num_heads"])
    else:
        model = contestants.ours(size)
        model.load_state_dict(torch.load(ours, weights_only=True))
    print(json.dumps([time.perf_counter() - start, _peak() - before]))


def _peak() -> float:
    """Return the largest resident size so far, in MB."""
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return peak / (2**20 if sys.platform == "darwin" else 2**10)


if __name__ == "__main__":
    main(*sys.argv[1:])
