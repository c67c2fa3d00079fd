"""Time one load in a process of its own, to see its memory: ``load.py WHO JSON``, by ``run.py``."""

import contextlib
import json
import re
import resource
import sys
import time
from pathlib import Path

import contestants
from libraries import import_library

import dnnl.models.vit as vit


def main(who: str, argument: str) -> None:
    size = json.loads(argument)
    folder = Path(size.pop("folder"))
    weights = folder / "timm.safetensors"
    if who == "write":
        from safetensors.torch import save_file

        save_file(contestants.classifiers(size)["timm"].state_dict(), weights)
        return
    names = ("img_size", "patch_size", "embed_dim", "num_heads", "depth")
    options = dict(zip(names, size.values(), strict=True))
    timm = import_library("timm.models.vision_transformer")
    checkpoint = import_library("timm.models")
    before, start = _peak(), time.perf_counter()
    if who == "timm":
        checkpoint.load_checkpoint(timm.VisionTransformer(**options), str(weights))
    else:
        vit.load_pretrained(weights, num_heads=size["num_heads"])
    print(json.dumps([time.perf_counter() - start, _peak() - before]))


def _peak() -> float:
    """Return the largest resident size of this program so far, in MB."""
    with contextlib.suppress(OSError):  # Linux, where getrusage() includes the peak of the parent
        status = Path("/proc/self/status").read_text(encoding="utf-8")
        return int(re.findall(r"VmHWM:\s*(\d+) kB", status)[0]) / 2**10
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return peak / (2**20 if sys.platform == "darwin" else 2**10)


if __name__ == "__main__":
    main(*sys.argv[1:])
