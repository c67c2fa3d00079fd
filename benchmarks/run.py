"""Time the model beside other libraries, in one process, and write the results.

    make bench                          everything, on the CPU and on a GPU where there is one
    make bench BENCH="--only resize"    one group
    make bench BENCH=--quick            a rehearsal: tiny models, a few rounds

All contestants of a case take turns, in a new order in each round, so that other load on the
machine affects all of them. Each case is set up three times, because the addresses of its tensors
change a time by some hundredths. The minimum is compared. The results go to ``results.json``,
``ratios.svg`` and, between two markers, ``README.md``.
"""

from __future__ import annotations

import argparse
import contextlib
import functools
import itertools
import json
import os
import platform
import random
import re
import statistics
import subprocess
import sys
import tempfile
import time
import warnings
from collections.abc import Callable, Iterator
from importlib import metadata
from pathlib import Path
from typing import Any

import contestants
import torch
from contestants import FUSED, OURS
from torch import Tensor, nn

import dnnl.models.vit as vit

HERE = Path(__file__).resolve().parent
FLOOR = "projection"  # the contestants whose names begin so: a part of the work, as a lower bound
CUT = "projection, cut"
DTYPES = {"float32": torch.float32, "bfloat16": torch.bfloat16}
B16 = {"image_size": 224, "patch_size": 16, "embed_dim": 768, "num_heads": 12, "num_layers": 12}
TINY = {"image_size": 32, "patch_size": 16, "embed_dim": 32, "num_heads": 2, "num_layers": 1}

Times = dict[str, list[float]]
Runs = dict[str, Callable[[], Any]]
SetUp = Callable[[], Runs]
Case = dict[str, Any]


class Bench:
    """Measures cases on one device, and holds their results."""

    def __init__(self, device: str, quick: bool, seconds: float) -> None:
        self.device, self.quick, self.seconds = device, quick, seconds
        self.size = TINY if quick else B16
        self.cases: list[Case] = []
        # Without AVX-512 a convolution in bfloat16 takes seconds: only the goals are measured then.
        fast = torch.backends.cpu.get_cpu_capability().startswith("AVX512")
        self.all_of_bfloat16 = quick or device != "cpu" or fast
        if not self.all_of_bfloat16:
            contestants.absent["bfloat16"] = (
                "without AVX-512 only the forward pass at 224 is measured in it"
            )

    @property
    def dtypes(self) -> dict[str, torch.dtype]:
        """The dtypes of all groups but the goals of the input module."""
        return DTYPES if self.all_of_bfloat16 else {"float32": torch.float32}

    def measure(self, set_up: SetUp, seconds: float | None = None, times: int = 3) -> Times:
        """Return the seconds of every round of every contestant, over several set-ups."""
        seconds, times = seconds or self.seconds, 1 if self.quick else times
        measured: Times = {}
        for _ in range(times):
            runs = set_up()
            for run in runs.values():
                run(), run()  # memory, caches, compilers
            self._rounds(runs, measured, seconds / times, 2 if self.quick else 3)
        return measured

    def _rounds(self, runs: Runs, measured: Times, seconds: float, least: int) -> None:
        names, order = list(runs), random.Random(0)
        end = time.perf_counter() + seconds
        for round_ in itertools.count():
            if round_ >= least and (self.quick or time.perf_counter() > end):
                return
            order.shuffle(names)  # what one leaves in the caches affects the next
            for name in names:
                start = time.perf_counter()
                runs[name]()
                if self.device == "cuda":
                    torch.cuda.synchronize()
                measured.setdefault(name, []).append(time.perf_counter() - start)

    def add(self, group: str, name: str, dtype: str, times: Times) -> None:
        """Add a case: minimum and median in ms, and the ratios of our minimum to the others'."""
        case: Case = {"group": group, "name": name, "dtype": dtype, "device": self.device}
        case["rounds"] = len(times[OURS])
        case["ms"] = {who: [1e3 * min(t), 1e3 * statistics.median(t)] for who, t in times.items()}
        low = {who: minimum for who, (minimum, _) in case["ms"].items()}
        others = {who: t for who, t in low.items() if not who.startswith((OURS, FLOOR))}
        if others:
            case["best"] = min(others, key=lambda who: others[who])
            case["ratio"] = low[OURS] / others[case["best"]]
            if FUSED in low:
                case["fused_ratio"] = low[FUSED] / others[case["best"]]
        if floors := [t for who, t in low.items() if who.startswith(FLOOR)]:
            case["over_floor"] = low[OURS] / min(floors)
        self.cases.append(case)
        shown = " ".join(f"{who} {t:.3g}" for who, t in low.items())
        print(f"{line(case)}  ms: {shown}", flush=True)


def line(case: Case) -> str:
    """Return a case and its ratios as one line."""
    ratio = f"{case['ratio']:.2f} x {case['best']}" if "ratio" in case else "no other library"
    fused = f", fused {case['fused_ratio']:.2f}" if "fused_ratio" in case else ""
    floor = f", {case['over_floor']:.2f} x {FLOOR}" if "over_floor" in case else ""
    where = f"{case['device']:4} {case['group']:10} {case['name']:34} {case['dtype']:8}"
    return f"{where} {ratio}{fused}{floor}"


# ---- the groups ---------------------------------------------------------------------------------


def _step(module: nn.Module, x: Tensor, backward: bool) -> Callable[[], Any]:
    def run() -> None:
        if not backward:
            with torch.inference_mode():
                module(x)
            return
        module.zero_grad(set_to_none=True)
        module(x).sum().backward()

    return run


def embedding(bench: Bench) -> None:
    """The input module: forward, forward + backward, eager and compiled."""
    sides = (224, 384) if not bench.quick else (32,)
    for side, name in itertools.product(sides, DTYPES):
        batches = (1, 8, 32) if side == 224 else (1, 8) if side == 384 else (2,)
        for batch, backward in itertools.product(batches, (False, True)):
            goal = side == 224 and not backward
            if name not in bench.dtypes and not goal:
                continue
            kind = "forward + backward" if backward else "forward"
            set_up = functools.partial(_embeddings, bench, side, name, batch, backward)
            case = f"{kind}, {side}, B={batch}"
            times = bench.measure(functools.partial(set_up, compiled=False))
            bench.add("embedding", case, name, times)
            middle = batch == batches[min(1, len(batches) - 1)] and side == sides[0]
            if middle and name in bench.dtypes:
                times = bench.measure(functools.partial(set_up, compiled=True), times=1)
                bench.add("compiled", case, name, times)


def _embeddings(
    bench: Bench, side: int, dtype: str, batch: int, backward: bool, compiled: bool
) -> Runs:
    size = {**bench.size, "image_size": side}
    patch = size["patch_size"]
    modules = contestants.embeddings(size)
    if not (backward or compiled):  # it has no gradients, and a compiler fuses by itself
        modules[FUSED] = contestants.fused(modules[OURS], side)
    modules[FLOOR] = nn.Conv2d(3, size["embed_dim"], patch, stride=patch)
    if compiled:
        torch.compiler.reset()
        backend = "eager" if bench.quick else "inductor"  # a rehearsal needs no C++ compiler
        for module in modules.values():
            module.compile(backend=backend)  # in place
    else:
        modules[CUT] = contestants.CutPatches(size)
    x = torch.randn(batch, 3, side, side).to(bench.device, DTYPES[dtype])
    inputs = {CUT: vit.patchify(x, patch)}
    return {
        who: _step(module.to(bench.device, DTYPES[dtype]), inputs.get(who, x), backward)
        for who, module in modules.items()
    }


def resize(bench: Bench) -> None:
    """The table of positions from one grid to another, by each library's settings."""
    grid, news, dim = (14, (24, 7), 768) if not bench.quick else (4, (6,), 32)
    for new, (name, dtype) in itertools.product(news, bench.dtypes.items()):

        def set_up(like: str, new: int = new, dtype: torch.dtype = dtype) -> Runs:
            return contestants.resizes(grid, new, dim, dtype, bench.device)[like]

        for like in contestants.resizes(grid, new, dim, dtype, bench.device):
            with torch.inference_mode():
                times = bench.measure(functools.partial(set_up, like))
            bench.add("resize", f"{grid}x{grid} to {new}x{new}, like {like}", name, times)


def other_size(bench: Bench) -> None:
    """Images of another size than the table: all resize it in each call; ``fuse`` resizes once."""
    batches = (1, 8) if not bench.quick else (1,)
    side = 2 * bench.size["image_size"] - 4 * bench.size["patch_size"]  # 224: 384
    side = side if side > 0 else 3 * bench.size["patch_size"]
    for name, batch in itertools.product(bench.dtypes, batches):

        def modules() -> dict[str, nn.Module]:
            found = contestants.embeddings(bench.size, dynamic=True)
            return {**found, FUSED: contestants.fused(found[OURS], side)}

        times = bench.measure(_forward(bench, modules, side, batch, name))
        bench.add("other size", f"{bench.size['image_size']} on {side}, B={batch}", name, times)


def classifier(bench: Bench) -> None:
    """The whole classifier, forward."""
    for name in bench.dtypes:
        models = functools.partial(contestants.classifiers, bench.size)
        side = bench.size["image_size"]
        set_up = _forward(bench, models, side, 1, name)
        times = bench.measure(set_up, 8 * bench.seconds)  # a round takes a second
        bench.add("classifier", f"forward, {side}, B=1", name, times)


def growth(bench: Bench) -> None:
    """The input module as the number of patches grows."""
    for side in (112, 224, 448, 896) if not bench.quick else (32, 64):
        size = {**bench.size, "image_size": side}
        modules = functools.partial(contestants.embeddings, size)
        patches = (side // size["patch_size"]) ** 2
        times = bench.measure(_forward(bench, modules, side, 1, "float32"))
        bench.add("growth", f"N={patches}, B=1", "float32", times)


def _forward(
    bench: Bench, build: Callable[[], dict[str, nn.Module]], side: int, batch: int, dtype: str
) -> SetUp:
    def set_up() -> Runs:
        x = torch.randn(batch, 3, side, side).to(bench.device, DTYPES[dtype])
        modules = {who: m.to(bench.device, DTYPES[dtype]).eval() for who, m in build().items()}
        return {who: _step(module, x, False) for who, module in modules.items()}

    return set_up


def load(bench: Bench) -> None:
    """Load a checkpoint with timm's names from the disk: time, and memory beyond the imports."""
    if bench.device != "cpu" or contestants.library("timm") is None:
        return
    with tempfile.TemporaryDirectory() as folder:
        times: Times = {OURS: [], "timm": []}
        memory: Times = {OURS: [], "timm": []}
        argument = json.dumps({**bench.size, "folder": folder})
        load_py = str(HERE / "load.py")
        subprocess.run([sys.executable, load_py, "write", argument], check=True)
        for _, who in itertools.product(range(1 if bench.quick else 4), times):
            command = [sys.executable, load_py, who, argument]
            done = subprocess.run(command, check=True, capture_output=True, text=True)
            seconds, peak = json.loads(done.stdout.splitlines()[-1])
            times[who].append(seconds)
            memory[who].append(peak)
    bench.add("load", "seconds", "float32", times)
    bench.cases[-1]["peak_MB"] = {who: min(peaks) for who, peaks in memory.items()}
    print("     peak memory, MB:", bench.cases[-1]["peak_MB"], flush=True)


GROUPS = {
    "embedding": embedding,
    "resize": resize,
    "other size": other_size,
    "classifier": classifier,
    "growth": growth,
    "load": load,
}


# ---- the report ----------------------------------------------------------------------------------


def facts(threads: int) -> dict[str, Any]:
    cpu = platform.processor() or platform.machine()
    with contextlib.suppress(OSError):
        if found := re.search(r"model name\s*: (.*)", Path("/proc/cpuinfo").read_text()):
            cpu = found[1]
    found_versions = {}
    for name in ("torch", "timm", "transformers", "torchvision", "vit-pytorch"):
        with contextlib.suppress(metadata.PackageNotFoundError):
            found_versions[name] = metadata.version(name)
    return {
        "cpu": cpu,
        "instructions": torch.backends.cpu.get_cpu_capability(),
        "cores": len(os.sched_getaffinity(0))
        if hasattr(os, "sched_getaffinity")
        else os.cpu_count(),
        "threads": threads,
        "gpu": torch.cuda.get_device_name() if torch.cuda.is_available() else None,
        "system": f"{platform.system()} {platform.machine()}",
        "python": platform.python_version(),
        "versions": found_versions,
    }


def goals(cases: list[Case]) -> list[dict[str, Any]]:
    """Return the goals for a CPU, each with its worst case."""
    cpu = [c for c in cases if c["device"] == "cpu" and "ratio" in c]

    def fused(group: str, names: str, dtypes: str = ".*") -> list[Case]:
        return [
            c
            for c in cpu
            if "fused_ratio" in c
            and c["group"] == group
            and re.fullmatch(names, c["name"])
            and re.fullmatch(dtypes, c["dtype"])
        ]

    def ratio(case: Case) -> float:
        return case["ratio"]

    def fused_ratio(case: Case) -> float:
        return case["fused_ratio"]

    def fused_to_timm(case: Case) -> float:
        return case["ms"][FUSED][0] / case["ms"]["timm"][0]

    forward = "forward, 224, B=({})".format
    other_sizes = [c for c in fused("other size", ".*") if "timm" in c["ms"]]
    wanted = [
        ("plain, every case, to the best library", cpu, ratio, 1.03),
        (
            "fused, bfloat16, forward, 224, B = 1, 8, 32, to the best library",
            fused("embedding", forward("1|8|32"), "bfloat16"),
            fused_ratio,
            0.72,
        ),
        (
            "fused, float32, forward, 224, B = 1, 8, to the best library",
            fused("embedding", forward("1|8"), "float32"),
            fused_ratio,
            0.97,
        ),
        (
            "fused, float32, forward, 224, B = 32, to the best library",
            fused("embedding", forward("32"), "float32"),
            fused_ratio,
            0.88,
        ),
        ("fused, another image size, to timm", other_sizes, fused_to_timm, 0.85),
    ]
    return [
        {
            "goal": text,
            "at_most": most,
            "worst": value(worst),
            "case": line(worst),
            "met": value(worst) <= most,
        }
        for text, found, value, most in wanted
        if found and (worst := max(found, key=value))
    ]


def table(result: dict[str, Any]) -> Iterator[str]:
    """Return the results as lines of Markdown, without anything like a date or a path."""
    f = result["facts"]
    versions = ", ".join(f"{name} {version}" for name, version in f["versions"].items())
    gpu = f"; GPU: {f['gpu']}" if f["gpu"] else ""
    yield f"{f['cpu']} ({f['instructions']}), {f['cores']} cores, {f['threads']} threads{gpu}; "
    yield f"{f['system']}, Python {f['python']}, {versions}."
    yield f"Load average before and after: {result['load'][0]:.1f}, {result['load'][1]:.1f}."
    for name, reason in result["absent"].items():
        yield f"Not measured: {name} ({reason})."
    yield ""
    yield "| goal | at most | worst case | |\n|---|---|---|---|"
    for goal in result["goals"]:
        mark = "met" if goal["met"] else f"**over**: {' '.join(goal['case'].split())}"
        yield f"| {goal['goal']} | {goal['at_most']:.2f} | {goal['worst']:.2f} | {mark} |"
    yield ""
    head = ["device", "what", "dtype", "plain, ms", "fused, ms", "best library, ms"]
    head += ["plain / best", "fused / best", f"plain / {FLOOR}"]
    yield f"| {' | '.join(head)} |"
    yield "|---" * len(head) + "|"
    for c in result["cases"]:
        ms = {who: f"{low:.3g}" for who, (low, _) in c["ms"].items()}
        best = f"{c['best']} {ms[c['best']]}" if "best" in c else "none here"
        what = f"{c['group']}: {c['name']}"
        ratios = (f"{c[k]:.2f}" if k in c else "" for k in ("ratio", "fused_ratio", "over_floor"))
        cells = (c["device"], what, c["dtype"], ms[OURS], ms.get(FUSED, ""), best, *ratios)
        yield f"| {' | '.join(cells)} |"
        if "peak_MB" in c:
            peaks = ", ".join(f"{who} {mb:.0f}" for who, mb in c["peak_MB"].items())
            yield f"| | {c['group']}: peak memory, MB: {peaks} |{' |' * (len(head) - 2)}"


def draw(result: dict[str, Any], path: Path) -> None:
    """Draw the time of every contestant over that of the best other library; the axis ends at 2."""
    import matplotlib

    matplotlib.use("agg")
    import matplotlib.pyplot as plt

    cases = [c for c in result["cases"] if "ratio" in c]
    if not cases:
        return
    grey = "#808080"
    style: dict[Any, Any] = {
        "svg.hashsalt": "dnnl",
        "svg.fonttype": "none",
        "font.size": 8,
        "text.color": grey,
    }
    style |= {f"{part}color": grey for part in ("xtick.", "ytick.", "axes.edge", "axes.label")}
    with plt.rc_context(style):
        figure, axes = plt.subplots(figsize=(7, 0.6 + 0.17 * len(cases)), layout="constrained")
        for y, c in enumerate(cases):
            best = c["ms"][c["best"]][0]
            for who, (low, _) in c["ms"].items():
                if not who.startswith((OURS, FLOOR)):
                    axes.plot(min(low / best, 2), y, "o", color=grey, markersize=3, alpha=0.6)
            axes.plot(min(c["ratio"], 2), y, "D", color="#E69F00", markersize=4.5)
            if "fused_ratio" in c:
                axes.plot(min(c["fused_ratio"], 2), y, "s", color="#0072B2", markersize=4)
        axes.axvline(1, color=grey, linewidth=0.8)
        labels = [f"{c['device']} {c['group']}: {c['name']}, {c['dtype']}" for c in cases]
        axes.set(yticks=range(len(cases)), yticklabels=labels, xlim=(0.4, 2.05))
        axes.set_xlabel(
            "time over that of the best other library "
            "(diamond: dnnl; square: dnnl, fused; dots: the others)"
        )
        axes.invert_yaxis()
        figure.savefig(path, transparent=True, metadata={"Date": None})
        plt.close(figure)


def write(result: dict[str, Any], out: Path) -> None:
    """Write the numbers, the figure, and the tables in the README."""
    (out / "results.json").write_text(json.dumps(result, indent=1) + "\n", encoding="utf-8")
    draw(result, out / "ratios.svg")
    text = (HERE / "README.md").read_text(encoding="utf-8")
    head, rest = text.split("<!-- results -->")
    _, tail = rest.split("<!-- end of results -->")
    body = "\n".join(table(result))
    text = f"{head}<!-- results -->\n{body}\n<!-- end of results -->{tail}"
    (out / "README.md").write_text(text, encoding="utf-8")


def main(arguments: list[str] | None = None) -> dict[str, Any]:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--quick", action="store_true", help="tiny models and a few rounds")
    parser.add_argument("--only", action="append", choices=GROUPS, help="a group; may be repeated")
    parser.add_argument("--device", choices=("cpu", "cuda"), help="one device; otherwise all")
    parser.add_argument("--seconds", type=float, default=4, help="of rounds, for each case")
    parser.add_argument("--out", type=Path, help="a folder; otherwise this one, for a whole run")
    options = parser.parse_args(arguments)
    warnings.filterwarnings("ignore")  # warnings of the libraries do not concern the results
    torch.manual_seed(0)
    if options.out:
        options.out.mkdir(parents=True, exist_ok=True)  # an error here comes before the minutes

    devices = ["cpu"] + ["cuda"] * torch.cuda.is_available()
    before, cases = os.getloadavg()[0], list[Case]()
    for device in [options.device] if options.device else devices:
        bench = Bench(device, options.quick, options.seconds)
        for name in options.only or GROUPS:
            GROUPS[name](bench)
        cases += bench.cases
    result: dict[str, Any] = {
        "facts": facts(torch.get_num_threads()),
        "load": [before, os.getloadavg()[0]],
        "absent": contestants.absent,
        "goals": goals(cases),
        "cases": cases,
    }
    for goal in result["goals"]:
        verdict = "met " if goal["met"] else "OVER"
        print(f"{verdict} {goal['goal']}: {goal['worst']:.2f}, at most {goal['at_most']:.2f}")
    whole = not (options.quick or options.only or options.device)
    if out := options.out or (HERE if whole else None):
        write(result, out)
    return result


if __name__ == "__main__":
    main()
