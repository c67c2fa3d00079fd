"""The benchmark program: it measures what it says, and reports it as it was."""

import itertools
import json
import subprocess
import sys
from pathlib import Path

import pytest
import torch
from peers import peer

ROOT = Path(__file__).resolve().parent.parent
BENCHMARKS = ROOT / "benchmarks"


@pytest.fixture(scope="module")
def run():
    """Import the program, whose folder is no package."""
    sys.path.insert(0, str(BENCHMARKS))
    try:
        import run
    finally:
        sys.path.remove(str(BENCHMARKS))
    return run


def case(group="embedding", name="forward, 224, B=8", dtype="float32", ratio=0.5, floor=1.0):
    ms = {"dnnl": [4 * ratio, 8.0], "timm": [4.0, 5.0], "slow": [9.0, 9.0]}
    return {
        "group": group,
        "name": name,
        "dtype": dtype,
        "device": "cpu",
        "rounds": 9,
        "ms": ms,
        "best": "timm",
        "ratio": ratio,
        "over_floor": floor,
    }


def test_a_rehearsal_runs_every_group_and_writes_every_file(tmp_path):
    peer("timm")
    command = [sys.executable, BENCHMARKS / "run.py", "--quick", "--device", "cpu"]
    before = {p: p.read_bytes() for p in BENCHMARKS.glob("*.*")}
    done = subprocess.run(
        [*command, "--out", tmp_path], capture_output=True, text=True, cwd=tmp_path
    )
    assert done.returncode == 0, done.stderr
    result = json.loads((tmp_path / "results.json").read_text())
    groups = {c["group"] for c in result["cases"]}
    assert groups == {
        "embedding",
        "compiled",
        "resize",
        "other size",
        "classifier",
        "growth",
        "load",
    }
    for c in result["cases"]:
        best = c["ms"][c["best"]][0]
        assert c["best"] not in ("dnnl", "projection", "projection, cut")
        assert c["ratio"] == pytest.approx(c["ms"]["dnnl"][0] / best)
        assert best == min(
            low
            for who, (low, _) in c["ms"].items()
            if who != "dnnl" and not who.startswith("projection")
        )
        assert all(0 < low <= median for low, median in c["ms"].values())
    text = (tmp_path / "README.md").read_text()
    assert text.count("\n| cpu |") == len(result["cases"])
    assert "<svg" in (tmp_path / "ratios.svg").read_text()
    assert {p: p.read_bytes() for p in BENCHMARKS.glob("*.*")} == before


def test_turns_are_taken_by_all_in_every_round(run):
    order = []
    runs = {name: (lambda name=name: order.append(name)) for name in "abc"}
    times = run.Bench("cpu", quick=False, seconds=0.001).measure(lambda: runs, times=1)
    assert len({len(t) for t in times.values()}) == 1
    assert times.keys() == set("abc")
    rounds = ["".join(order[i : i + 3]) for i in range(6, len(order), 3)]  # after the warm-up
    assert {"".join(sorted(r)) for r in rounds} == {"abc"}
    for name in "abc":  # what one leaves in the caches is felt by each of the others
        assert len({a for a, b in itertools.pairwise(order[6:]) if b == name} - {name}) == 2


def test_a_case_is_set_up_three_times_and_all_rounds_count(run):
    made = []

    def set_up():
        made.append(1)
        return {"a": lambda: None}

    times = run.Bench("cpu", quick=False, seconds=0).measure(set_up)
    assert len(made) == 3
    assert len(times["a"]) == 9


def test_the_minimum_counts_against_the_best_other_library_and_the_lower_floor(run):
    bench = run.Bench("cpu", quick=True, seconds=0)
    times = {
        "dnnl": [0.003, 0.002, 0.009],
        "timm": [0.005, 0.004, 0.001],
        "torchvision": [0.002, 0.002, 0.002],
        "projection": [0.0008, 0.004, 0.004],
        "projection, cut": [0.0005, 0.003, 0.003],
    }
    bench.add("embedding", "forward", "float32", times)
    (c,) = bench.cases
    assert (c["best"], c["rounds"]) == ("timm", 3)
    assert c["ratio"] == pytest.approx(2.0)
    assert c["over_floor"] == pytest.approx(4.0)
    assert c["ms"]["dnnl"] == pytest.approx([2.0, 3.0])


def test_what_is_over_its_goal_is_said_to_be(run):
    cases = [
        case(ratio=0.87, floor=1.2),
        case(name="forward, 224, B=32", ratio=0.88, floor=1.1),
        case(dtype="bfloat16", ratio=0.95),
        case(group="resize", name="14x14 to 24x24, like timm", ratio=0.99),
        case(group="growth", name="N=49, B=1", ratio=1.06),
        case(name="forward, 224, B=1", ratio=1.02),
    ]
    goals = run.goals(cases)
    assert [(g["worst"], g["met"]) for g in goals] == [
        (0.88, True),
        (1.2, False),
        (0.95, False),
        (0.99, True),
        (1.06, False),
    ]
    facts = run.facts(threads=2)
    result = {"facts": facts, "load": [0, 0], "absent": {}, "goals": goals, "cases": cases}
    text = "\n".join(run.table(result))
    assert text.count("**over**") == 3
    assert "**over**: cpu growth N=49, B=1 float32 1.06 x timm" in text
    assert f"torch {facts['versions']['torch']}" in text


def test_an_absent_library_is_reported_and_not_passed_over(run, monkeypatch):
    monkeypatch.setitem(sys.modules, "vit_pytorch", None)
    monkeypatch.setattr(run.contestants, "absent", {})
    assert "vit-pytorch" not in run.contestants.classifiers(run.TINY)
    assert list(run.contestants.absent) == ["vit_pytorch"]


def test_the_contestants_of_a_case_compute_one_sequence(run):
    peer("timm")
    modules = run.contestants.embeddings(run.TINY)
    x = torch.randn(3, 3, 32, 32)
    with torch.no_grad():
        want = modules["dnnl"](x)
        for name in set(modules) & {"timm", "transformers", "torchvision"}:
            torch.testing.assert_close(modules[name](x), want, rtol=1e-4, atol=1e-5)
