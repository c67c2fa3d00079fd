"""The benchmark program: what it measures, and how it reports it."""

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
    """Import the program, whose folder is not a package."""
    sys.path.insert(0, str(BENCHMARKS))
    try:
        import run
    finally:
        sys.path.remove(str(BENCHMARKS))
    return run


def case(group, name, dtype="float32", ratio=1.0, fused=None):
    """Return a case whose best library, in 4 ms, is torchvision; timm takes 5 ms."""
    found = {
        "group": group,
        "name": name,
        "dtype": dtype,
        "device": "cpu",
        "rounds": 9,
        "ms": {"dnnl": [4 * ratio, 8.0], "torchvision": [4.0, 5.0], "timm": [5.0, 9.0]},
        "best": "torchvision",
        "ratio": ratio,
        "over_floor": 1.0,
    }
    if fused is not None:
        found["ms"]["dnnl fused"] = [4 * fused, 8.0]
        found["fused_ratio"] = fused
    return found


@pytest.mark.release
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
        libraries = set(c["ms"]) - {"dnnl", "dnnl fused", "projection", "projection, cut"}
        assert c["best"] in libraries
        assert best == min(c["ms"][who][0] for who in libraries)
        assert c["ratio"] == pytest.approx(c["ms"]["dnnl"][0] / best)
        inference = c["group"] in ("embedding", "other size") and "backward" not in c["name"]
        assert ("dnnl fused" in c["ms"]) == ("fused_ratio" in c) == inference
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


def test_minima_are_compared_with_the_best_library_and_the_lower_floor(run):
    bench = run.Bench("cpu", quick=True, seconds=0)
    times = {
        "dnnl": [0.003, 0.002, 0.009],
        "dnnl fused": [0.0007, 0.0005, 0.009],
        "timm": [0.005, 0.004, 0.001],
        "torchvision": [0.002, 0.002, 0.002],
        "projection": [0.0008, 0.004, 0.004],
        "projection, cut": [0.0005, 0.003, 0.003],
    }
    bench.add("embedding", "forward", "float32", times)
    (c,) = bench.cases
    assert (c["best"], c["rounds"]) == ("timm", 3)
    assert c["ratio"] == pytest.approx(2.0)
    assert c["fused_ratio"] == pytest.approx(0.5)
    assert c["over_floor"] == pytest.approx(4.0)
    assert c["ms"]["dnnl"] == pytest.approx([2.0, 3.0])


def test_a_goal_names_its_worst_case_and_whether_it_is_met(run):
    cases = [
        case("embedding", "forward, 224, B=1", fused=0.95),
        case("embedding", "forward, 224, B=8", fused=0.97),
        case("embedding", "forward, 224, B=32", fused=0.89),
        case("embedding", "forward, 224, B=1", "bfloat16", fused=0.72),
        case("embedding", "forward, 224, B=8", "bfloat16", fused=0.6),
        case("embedding", "forward, 384, B=8", "bfloat16", fused=0.9),  # not in a goal
        case("embedding", "forward + backward, 224, B=8"),
        case("other size", "224 on 384, B=8", fused=1.05),  # 0.84 x timm
        case("growth", "N=49, B=1", ratio=1.06),
    ]
    goals = run.goals(cases)
    assert [(g["at_most"], pytest.approx(g["worst"]), g["met"]) for g in goals] == [
        (1.03, 1.06, False),
        (0.72, 0.72, True),
        (0.97, 0.97, True),
        (0.88, 0.89, False),
        (0.85, 0.84, True),
    ]
    facts = run.facts(threads=2)
    result = {"facts": facts, "load": [0, 0], "absent": {}, "goals": goals, "cases": cases}
    text = "\n".join(run.table(result))
    assert text.count("**over**") == 2
    assert "**over**: cpu growth N=49, B=1 float32 1.06 x torchvision" in text
    assert f"torch {facts['versions']['torch']}" in text
    rows = [line for line in text.splitlines() if line.startswith(("| cpu", "| device"))]
    assert {row.count("|") for row in rows} == {10}
    assert (
        "| embedding: forward, 224, B=32 | float32 | 4 | 3.56 | torchvision 4 | 1.00 | 0.89 |"
        in text
    )


def test_an_absent_library_is_reported(run, monkeypatch):
    monkeypatch.setitem(sys.modules, "vit_pytorch", None)
    monkeypatch.setattr(run.contestants, "absent", {})
    assert "vit-pytorch" not in run.contestants.classifiers(run.TINY)
    assert list(run.contestants.absent) == ["vit_pytorch"]


def test_the_contestants_of_a_case_compute_one_sequence(run):
    peer("timm")
    modules = run.contestants.embeddings(run.TINY)
    modules["dnnl fused"] = run.contestants.fused(modules["dnnl"], 32)
    x = torch.randn(3, 3, 32, 32)
    with torch.no_grad():
        expected = modules["dnnl"](x)
        for name in set(modules) - {"vit-pytorch"}:
            torch.testing.assert_close(modules[name](x), expected, rtol=1e-4, atol=1e-5)


def test_a_contestant_with_another_result_is_refused(run):
    modules = run.contestants.embeddings(run.TINY)
    with pytest.raises(AssertionError, match="not close"):
        run.contestants._check_equal(
            modules["dnnl"], lambda x: x.new_zeros(2, 5, 32), torch.ones(2, 3, 32, 32)
        )


def test_the_benchmarks_run_without_pytest():
    code = "import sys; sys.modules['pytest'] = None; import contestants, load, run"
    done = subprocess.run(
        [sys.executable, "-c", code], cwd=BENCHMARKS, capture_output=True, text=True
    )
    assert done.returncode == 0, done.stderr
