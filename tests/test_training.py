"""Training: what it computes, what it refuses, and that no kill loses anything."""

import json
import math
import os
import re
import signal
import subprocess
import sys
import time
from dataclasses import asdict, replace
from pathlib import Path

import pytest
import torch
import torch.distributed as dist
import torch.multiprocessing as mp
from PIL import Image
from safetensors import SafetensorError, safe_open
from safetensors.torch import load_file, save_file
from torch.nn.parallel import DistributedDataParallel

from dnnl import _safetensors, data, training
from dnnl.chapter_model import ChapterModel

CPU = torch.device("cpu")
SMALL = training.Recipe(
    steps=12, batch_size=16, image_size=16, embed_dim=16, num_heads=2, num_layers=1, hidden_dim=32
)
OPTIONS = [
    f"--{name.replace('_', '-')}={value}"
    for name, value in asdict(SMALL).items()
    if value != getattr(training.Recipe(), name)
]


@pytest.fixture(scope="module")
def images() -> dict[str, torch.Tensor]:
    return data.photographs(short_side=256)


def start(images, recipe=SMALL) -> training.State:
    return training.State.start(recipe, tuple(images), CPU)


def weights(state: training.State) -> dict[str, torch.Tensor]:
    return {name: t.clone() for name, t in state.model.state_dict().items()}


def command(*options: str, processes: int = 0) -> list[str]:
    run = ["-m", "torch.distributed.run", "--standalone", f"--nproc-per-node={processes}"]
    return [sys.executable, *(run if processes else []), "-m", "dnnl.training", *options]


ENVIRONMENT = {**os.environ, "DNNL_DEVICE": "cpu", "OMP_NUM_THREADS": "1"}


# ---- what a step computes -----------------------------------------------------------------------


def test_two_hundred_steps_lower_the_masked_error(tmp_path) -> None:
    options = ["--steps=200", "--batch-size=4", f"--out={tmp_path / 'w.safetensors'}"]
    run = subprocess.run(
        command(*options), env=ENVIRONMENT, capture_output=True, text=True, check=True
    )
    before, after = (
        float(n) for n in run.stdout.split("masked error ")[1].split("\n")[0].split(" -> ")
    )
    assert after < 0.7 * before and after < 0.8
    model = ChapterModel.load(tmp_path / "w.safetensors")
    assert abs(model.about["results"]["masked_error"] - after) < 1e-3
    assert model.about["recipe"]["steps"] == 200 and len(model.about["history"]) == 100
    assert os.listdir(tmp_path) == ["w.safetensors"]  # nothing is left aside


def test_the_rate_warms_up_and_falls_along_a_cosine() -> None:
    recipe = training.Recipe(steps=1000, learning_rate=1.0)
    assert recipe.rate(0) == 0.01 and recipe.rate(99) == 1.0 and recipe.rate(100) == 1.0
    assert math.isclose(recipe.rate(550), 0.5) and recipe.rate(999) < 1e-5
    rates = [recipe.rate(step) for step in range(1000)]
    assert rates == sorted(rates[:100]) + sorted(rates[100:], reverse=True)


def test_class_token_mask_token_and_positions_are_not_decayed(images) -> None:
    state = start(images)
    names = {p: n for n, p in state.model.named_parameters()}
    decayed, spared = state.optimizer.param_groups
    assert decayed["weight_decay"] == SMALL.weight_decay and spared["weight_decay"] == 0
    assert {names[p].rsplit(".", 1)[-1] for p in spared["params"]} == {
        "cls_token",
        "pos_embed",
        "mask_token",
    }
    assert len(decayed["params"]) + 3 == len(names)


def test_a_batch_depends_on_seed_and_step_alone(images) -> None:
    one = training.draw(SMALL, images, 3)
    torch.rand(5)
    same = training.draw(SMALL, images, 3)
    other = training.draw(SMALL, images, 4)
    seeded = training.draw(replace(SMALL, seed=1), images, 3)
    assert torch.equal(one.x, same.x) and torch.equal(one.mask, same.mask)
    assert not torch.equal(one.x, other.x) and not torch.equal(one.x, seeded.x)
    assert one.mask.sum(1).tolist() == ([9] * 7 + [0]) * 2  # int(0.6 * 16); every eighth is whole
    parts = [one.share(rank, 2, CPU) for rank in range(2)]
    assert torch.equal(torch.cat([p.x for p in parts]), one.x)


@pytest.mark.parametrize("mix", ["mixup", "cutmix"])
def test_mixed_labels_are_the_shares_of_the_pixels(mix: str, images) -> None:
    flat = {name: torch.full((3, 64, 64), float(i)) for i, name in enumerate("ab")}
    for step in range(20):
        batch = training.draw(replace(SMALL, mix=mix, batch_size=16), flat, step)
        torch.testing.assert_close(batch.y.sum(1), torch.ones(16))
        torch.testing.assert_close(batch.x.mean((1, 2, 3)), batch.y[:, 1], atol=1e-5, rtol=0)


def test_the_loss_is_that_of_the_formula(images) -> None:
    state, batch = start(images), training.draw(SMALL, images, 0)
    loss, error = training.Objective(state.model, 0.1)(batch)
    difference = state.model.reconstruct(batch.x, batch.mask) - state.model.standardize(batch.x)
    expected = (difference**2).mean(-1)[batch.mask].mean()
    logits = state.model.vit.head(state.model.encode(batch.x, batch.mask))
    naming = -(logits.log_softmax(1) * batch.y).sum(1).mean()
    torch.testing.assert_close(error, expected.detach())
    torch.testing.assert_close(loss, expected + 0.1 * naming)


def test_starting_a_run_leaves_the_global_random_numbers_alone(images) -> None:
    torch.manual_seed(5)
    expected = torch.rand(3)
    torch.manual_seed(5)
    start(images)
    assert torch.equal(torch.rand(3), expected)


# ---- several processes --------------------------------------------------------------------------


def _gradient(rank: int, world: int, folder: str) -> None:
    if world > 1:
        dist.init_process_group(
            "gloo", init_method=f"file://{folder}/meeting", rank=rank, world_size=world
        )
    images = data.photographs(short_side=256)
    state = training.State.start(SMALL, tuple(images), CPU)
    objective = training.Objective(state.model, SMALL.class_weight)
    if world > 1:
        objective = DistributedDataParallel(objective)
    batch = training.draw(SMALL, images, 0).share(rank, world, CPU)
    objective(batch)[0].backward()
    gradients = {n: p.grad for n, p in state.model.named_parameters()}
    save_file(gradients, f"{folder}/{world}-{rank}.safetensors")
    if world > 1:
        Path(folder, f"different-{rank}").write_text(_agreement({"a": 0.1 * rank}, folder))
        Path(folder, f"same-{rank}").write_text(_agreement({"a": 0.1}, folder))
        dist.destroy_process_group()


def _agreement(greys: dict[str, float], folder: str) -> str:
    """Return what the processes say when each has photographs of these greys."""
    images = {name: torch.full((3, 16, 16), grey) for name, grey in greys.items()}
    state = start(images)
    state.recognize(images)
    try:
        training._agree(state, Path(folder))
    except ValueError as error:
        return str(error)
    return "agreed"


@pytest.fixture(scope="module")
def two_processes(tmp_path_factory) -> Path:
    """Return the folder in which two processes have left what they computed."""
    folder = tmp_path_factory.mktemp("two")
    mp.spawn(_gradient, (2, str(folder)), nprocs=2)
    return folder


@pytest.mark.release
def test_two_processes_give_the_gradient_of_one(two_processes, tmp_path) -> None:
    _gradient(0, 1, str(tmp_path))
    alone = load_file(tmp_path / "1-0.safetensors")
    for rank in range(2):
        shared = load_file(two_processes / f"2-{rank}.safetensors")
        torch.testing.assert_close(shared, alone, atol=1e-6, rtol=1e-4)
    assert min(g.abs().max() for g in alone.values()) > 0  # every parameter takes part


@pytest.mark.release
def test_processes_with_different_photographs_do_not_train_together(two_processes) -> None:
    for rank in range(2):
        assert "same photographs" in (two_processes / f"different-{rank}").read_text()
        assert (two_processes / f"same-{rank}").read_text() == "agreed"


@pytest.mark.release
def test_a_run_of_one_process_continues_on_two(tmp_path, images, monkeypatch) -> None:
    whole = start(images)
    training.train(whole, images, progress=False)

    half = start(images)
    checkpoint = tmp_path / "w.safetensors.checkpoint"
    real = training.draw

    def stop_at_7(recipe, images, step):
        if step == 7:
            raise KeyboardInterrupt
        return real(recipe, images, step)

    monkeypatch.setattr(training, "draw", stop_at_7)
    with pytest.raises(KeyboardInterrupt):
        training.train(half, images, checkpoint=checkpoint, checkpoint_every=3, progress=False)

    out = tmp_path / "w.safetensors"
    run = subprocess.run(
        command(*OPTIONS, f"--out={out}", processes=2),
        env=ENVIRONMENT,
        capture_output=True,
        text=True,
    )
    assert run.returncode == 0, run.stderr
    assert "at step 6 of 12" in run.stdout and not checkpoint.exists()
    expected = {name: t.half() for name, t in weights(whole).items()}  # the file holds float16
    torch.testing.assert_close(load_file(out), expected, atol=2e-3, rtol=2e-3)


# ---- nothing is lost ----------------------------------------------------------------------------


def test_a_continued_run_is_the_uninterrupted_one_bit_by_bit(tmp_path, images) -> None:
    whole = start(images)
    training.train(whole, images, progress=False)

    first = start(images)
    for _ in range(2):  # stopped, and taken up by a new process, twice
        _some_steps(first, images, 4)
        first.save(tmp_path / "run")
        first = start(images)
        first.load(tmp_path / "run")
    training.train(first, images, progress=False)
    assert first.history == whole.history
    for name, t in weights(whole).items():
        assert torch.equal(weights(first)[name], t), name


def _some_steps(state: training.State, images, count: int) -> None:
    """Advance by ``count`` steps of the state's recipe, written out once more."""
    recipe = state.recipe
    objective = training.Objective(state.model, recipe.class_weight)
    for _ in range(count):
        for group in state.optimizer.param_groups:
            group["lr"] = recipe.rate(state.step)
        batch = training.draw(recipe, images, state.step)
        loss, error = objective(batch)
        state.optimizer.zero_grad()
        loss.backward()
        torch.nn.utils.clip_grad_norm_(state.model.parameters(), 1.0)
        state.optimizer.step()
        if state.step % max(1, recipe.steps // 100) == 0:
            state.history.append([state.step, round(error.item(), 4)])
        state.step += 1


@pytest.mark.release
def test_a_killed_run_continues_where_its_checkpoint_was(tmp_path, images) -> None:
    out = tmp_path / "w.safetensors"
    checkpoint = tmp_path / "w.safetensors.checkpoint"
    options = [*OPTIONS[1:], "--steps=400", f"--out={out}", "--checkpoint-every=1"]
    process = subprocess.Popen(command(*options), env=ENVIRONMENT)
    deadline = time.monotonic() + 120
    while not checkpoint.exists() and time.monotonic() < deadline:
        time.sleep(0.01)
    time.sleep(0.3)  # somewhere in the middle of computing or writing
    process.send_signal(signal.SIGKILL)
    assert process.wait() == -signal.SIGKILL and not out.exists()

    recipe = replace(SMALL, steps=400)
    state = start(images, recipe)
    state.load(checkpoint)  # whole, in spite of the kill
    assert 0 < state.step < 400
    straight = start(images, recipe)
    _some_steps(straight, images, state.step)
    torch.testing.assert_close(weights(state), weights(straight), atol=1e-5, rtol=1e-4)


def test_a_failed_write_leaves_the_old_file_and_nothing_aside(
    tmp_path, images, monkeypatch
) -> None:
    state = start(images)
    _some_steps(state, images, 1)
    path = tmp_path / "run"
    state.save(path)
    before = path.read_bytes()

    def full(*_: object) -> None:
        raise OSError("No space left on device")

    monkeypatch.setattr(os, "replace", full)
    with pytest.raises(OSError, match="No space"):
        state.save(path)
    assert path.read_bytes() == before and os.listdir(tmp_path) == ["run"]


# ---- what is refused ----------------------------------------------------------------------------


def _damage(path: Path, how: str) -> None:
    whole = path.read_bytes()
    if how == "truncated":
        path.write_bytes(whole[: len(whole) // 2])
    elif how == "empty":
        path.write_bytes(b"")
    elif how == "foreign":
        save_file({"x": torch.zeros(1)}, path)
    elif how == "text":
        path.write_text("not a checkpoint")
    else:
        path.write_bytes(b"\xff" * 8 + whole[8:])


@pytest.mark.parametrize("how", ["truncated", "empty", "foreign", "text", "absurd header"])
def test_a_damaged_or_foreign_checkpoint_is_refused_and_changes_nothing(
    how: str, tmp_path, images
) -> None:
    state = start(images)
    _some_steps(state, images, 1)
    path = tmp_path / "run"
    state.save(path)
    _damage(path, how)
    before = weights(state)
    with pytest.raises(ValueError, match="Expected a"):
        state.load(path)
    assert all(torch.equal(t, before[name]) for name, t in weights(state).items())
    assert state.step == 1


def test_a_checkpoint_of_another_run_is_refused(tmp_path, images) -> None:
    state = start(images)
    _some_steps(state, images, 1)
    state.save(tmp_path / "run")
    with pytest.raises(ValueError, match=r"another run: its recipe .*--fresh"):
        start(images, replace(SMALL, seed=1)).load(tmp_path / "run")
    fewer = dict(list(images.items())[:3])
    with pytest.raises(ValueError, match="another run: its photographs"):
        start(fewer).load(tmp_path / "run")


def test_a_run_does_not_continue_on_other_pictures_of_the_same_names(tmp_path, images) -> None:
    state = start(images)
    state.recognize(images)
    state.save(tmp_path / "run")
    mirrored = {**images, "cat": images["cat"].flip(-1)}
    other = start(images)
    other.load(tmp_path / "run")  # it does not know yet which pictures it is to see
    with pytest.raises(ValueError, match="'cat' is not the one that this run began with"):
        training.train(other, mirrored, progress=False)
    other = start(images)
    other.recognize(mirrored)
    with pytest.raises(ValueError, match="another run: its photograph 'cat'.*--fresh"):
        other.load(tmp_path / "run")
    rounded = {name: image + 1e-7 for name, image in images.items()}  # by another machine
    same = start(images)
    same.load(tmp_path / "run")
    same.recognize(rounded)


def _rewrite(path: Path, change) -> None:
    """Change the tensors and the description of a checkpoint in place."""
    with safe_open(path, "pt") as file:
        header = file.metadata()
    tensors, about = load_file(path), json.loads(header["about"])
    change(tensors, about)
    save_file(tensors, path, {**header, "about": json.dumps(about)})


CHANGES = {
    "no step": lambda t, about: about.pop("step"),
    "no history": lambda t, about: about.pop("history"),
    "no pixels": lambda t, about: about.pop("pixels"),
    "step in words": lambda t, about: about.update(step="1"),
    "step true": lambda t, about: about.update(step=True),
    "step -5": lambda t, about: about.update(step=-5),
    "step 13": lambda t, about: about.update(step=13),
    "history of words": lambda t, about: about.update(history=["a"]),
    "history with nan": lambda t, about: about.update(history=[[0, math.nan]]),
    "pixels of words": lambda t, about: about.update(pixels={"cat": "a"}),
    "fewer weights": lambda t, about: t.pop("model.mask_token"),
    "more weights": lambda t, about: t.update({"model.more": torch.zeros(1)}),
    "no moment": lambda t, about: t.pop("optimizer.exp_avg.mask_token"),
    "another shape": lambda t, about: t.update({"model.mask_token": torch.zeros(1, 1, 15)}),
    "another moment": lambda t, about: t.update({"optimizer.exp_avg_sq.mask_token": torch.ones(2)}),
    "integers": lambda t, about: t.update({"model.mask_token": torch.zeros(1, 1, 16).int()}),
    "nan": lambda t, about: t["model.mask_token"].fill_(math.nan),
    "inf": lambda t, about: t["optimizer.exp_avg.mask_token"].fill_(math.inf),
}


@pytest.mark.parametrize("how", CHANGES)
def test_a_checkpoint_is_checked_whole_before_anything_changes(how: str, tmp_path, images) -> None:
    path = tmp_path / "run"
    state = start(images)
    _some_steps(state, images, 1)
    state.save(path)
    _rewrite(path, CHANGES[how])
    state = start(images)
    before = weights(state)
    with pytest.raises(ValueError, match=r"Cannot continue from the checkpoint .*--fresh"):
        state.load(path)
    assert all(torch.equal(t, before[name]) for name, t in weights(state).items())
    assert state.step == 0 and state.history == [] and not state.optimizer.state


@pytest.mark.parametrize("about", ["[]", "7", "NaN", "[" * 10**5])
def test_a_description_that_is_not_an_object_is_refused(about: str, tmp_path, images) -> None:
    path = tmp_path / "run"
    save_file({"x": torch.zeros(1)}, path, {"format": training.CHECKPOINT, "about": about})
    with pytest.raises(ValueError, match="description in"):
        start(images).load(path)


def test_a_checkpoint_of_the_first_version_says_so(tmp_path, images) -> None:
    old = {"format": "dnnl-training-checkpoint/1", "about": "{}"}
    save_file({"x": torch.zeros(1)}, tmp_path / "run", old)
    with pytest.raises(ValueError, match=r"checkpoint/2.*checkpoint/1.*--fresh"):
        start(images).load(tmp_path / "run")


def test_a_run_saved_before_its_first_step_continues(tmp_path, images) -> None:
    start(images).save(tmp_path / "run")
    state = start(images)
    state.load(tmp_path / "run")
    straight = start(images)
    for run in (state, straight):
        training.train(run, images, progress=False)
    assert all(torch.equal(t, weights(straight)[name]) for name, t in weights(state).items())


@pytest.mark.parametrize(
    "change",
    [
        {"class_weight": math.nan},
        {"class_weight": math.inf},
        {"class_weight": -1.0},
        {"weight_decay": math.inf},
        {"weight_decay": math.nan},
        {"weight_decay": -5.0},
        {"mask_ratio": math.nan},
        {"mask_ratio": math.inf},
        {"mask_ratio": -0.1},
        {"learning_rate": math.inf},
        {"learning_rate": 0.0},
        {"learning_rate": "fast"},
        {"steps": 1.5},
        {"steps": True},
        {"num_layers": -1},
        {"hidden_dim": 0},
        {"image_size": (16, 16)},
    ],
)
def test_settings_out_of_range_are_refused_by_name(change) -> None:
    (name,) = change
    with pytest.raises(ValueError, match=f"Expected .*{name}"):
        replace(SMALL, **change)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (["--steps=0"], "steps of at least 1"),
        (["--batch-size=0"], "batch_size of at least 1"),
        (["--patch-size=5"], "divisible"),
        (["--mask-ratio=0"], "mask_ratio"),
        (["--mask-ratio=1"], "mask_ratio"),
        (["--learning-rate=-1"], "learning_rate"),
        (["--learning-rate=nan"], "learning_rate"),
        (["--mix=blend"], "mixup"),
        (["--seed=-1"], "seed"),
        (["--checkpoint-every=0"], "checkpoint_every"),
        (["--out=absent/w.safetensors"], "existing folder"),
        (["--out=."], "is a folder"),
        (["--out=/dev/null"], "not a regular file"),
        (["--out=cat.png"], "name of a photograph"),
        (["--out=" + 250 * "w"], "File name too long"),
        (["--out=w\udce9"], "file name in UTF-8"),
        (["--out=w", "--checkpoint=w"], "are the same"),
        (["--out=w", "--checkpoint=./w"], "are the same"),
        (["--class-weight=nan"], "finite class_weight"),
        (["--weight-decay=inf"], "finite weight_decay"),
        (["--mask-ratio=inf"], "finite mask_ratio"),
        (["--photographs=absent"], "folder of photographs"),
        (["--image-size=512"], "at most 256 pixels"),
        (["--num-heads=5"], "divisible by 5 heads"),
    ],
)
def test_bad_arguments_fail_before_any_work(
    options: list[str], message: str, tmp_path, monkeypatch, capsys
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("DNNL_DEVICE", "cpu")
    monkeypatch.delenv("RANK", raising=False)

    def no_work(*_: object, **__: object) -> None:
        raise AssertionError("it began to train")

    monkeypatch.setattr(training, "train", no_work)
    try:
        status = training.main(options)
    except SystemExit as stop:
        status = stop.code
    assert status == 2
    assert message in capsys.readouterr().err
    assert os.listdir(tmp_path) == []


def refusal(capsys, *options: str) -> str:
    """Return what the command prints to stderr when it refuses, with status 2."""
    try:
        status = training.main([*OPTIONS, *options])
    except SystemExit as stop:
        status = stop.code
    assert status == 2
    return capsys.readouterr().err


@pytest.fixture
def here(tmp_path, monkeypatch) -> Path:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("DNNL_DEVICE", "cpu")
    for name in ("RANK", "WORLD_SIZE", "MASTER_ADDR", "MASTER_PORT"):
        monkeypatch.delenv(name, raising=False)
    return tmp_path


@pytest.mark.parametrize("link", [os.link, os.symlink])
def test_weights_and_checkpoint_are_not_one_file_by_a_link(link, here, capsys) -> None:
    (here / "w").write_bytes(b"mine")
    link(here / "w", here / "c")
    assert "are the same" in refusal(capsys, "--out=w", "--checkpoint=c", "--fresh")
    assert (here / "w").read_bytes() == (here / "c").read_bytes() == b"mine"
    (here / "w").unlink()
    if (here / "c").is_symlink():  # to a file that does not exist yet
        assert "are the same" in refusal(capsys, "--out=w", "--checkpoint=c")


@pytest.mark.parametrize(
    ("options", "said"),
    [
        (["--learning-rate=1e30"], "The loss of step 1 is nan"),
        (["--learning-rate=1e30", "--steps=1"], "The masked_error of step 1 is nan"),
        (["--learning-rate=1e5", "--steps=1"], "Cannot save w in float16"),  # finite, but large
    ],
)
def test_a_run_that_diverges_stops_and_leaves_the_good_files(
    options: list[str], said: str, here, images, capsys
) -> None:
    out, checkpoint = here / "w", here / "w.checkpoint"
    start(images).model.save(out)
    weights_before = out.read_bytes()
    recipe = replace(
        SMALL,
        **{
            k: type(getattr(SMALL, k))(float(v))
            for k, v in (option[2:].replace("-", "_").split("=") for option in options)
        },
    )
    start(images, recipe).save(checkpoint)
    checkpoint_before = checkpoint.read_bytes()
    message = refusal(capsys, *options, "--out=w")
    assert re.search(said, message) and "Traceback" not in message
    assert out.read_bytes() == weights_before and checkpoint.read_bytes() == checkpoint_before
    assert sorted(os.listdir(here)) == ["w", "w.checkpoint"]


def test_the_first_loss_that_is_not_finite_stops_the_run(images, monkeypatch) -> None:
    state = start(images)
    real = training.draw

    def with_a_hole(recipe, images, step):
        batch = real(recipe, images, step)
        if step == 5:
            batch.x[0, 0, 0, 0] = math.inf
        return batch

    monkeypatch.setattr(training, "draw", with_a_hole)
    with pytest.raises(FloatingPointError, match="loss of step 5 is (nan|inf)"):
        training.train(state, images, progress=False)
    assert state.step == 5
    assert all(bool(t.isfinite().all()) for t in weights(state).values())


def test_a_gradient_that_is_not_finite_stops_the_run(images) -> None:
    state = start(images)
    state.model.mask_token.register_hook(lambda gradient: gradient * math.inf)
    with pytest.raises(FloatingPointError, match="norm of the gradient of step 0"):
        training.train(state, images, progress=False)
    assert all(bool(t.isfinite().all()) for t in weights(state).values())


def test_a_state_that_is_not_finite_is_not_saved(tmp_path, images) -> None:
    state = start(images)
    state.save(tmp_path / "run")
    before = (tmp_path / "run").read_bytes()
    with torch.no_grad():
        state.model.mask_token[0, 0, 0] = math.nan
    with pytest.raises(ValueError, match="'model.mask_token' holds values that are not finite"):
        state.save(tmp_path / "run")
    assert (tmp_path / "run").read_bytes() == before


def test_a_full_disk_is_an_error_of_the_command(here, monkeypatch, capsys) -> None:
    def full(*_: object, **__: object) -> None:
        raise SafetensorError("Error while serializing: I/O error: No space left on device")

    monkeypatch.setattr(_safetensors, "save_file", full)
    message = refusal(capsys, "--out=w", "--steps=1")
    assert message.startswith("python -m dnnl.training: error: Cannot write w:")
    assert "No space left" in message and os.listdir(here) == []


@pytest.mark.parametrize("missing", ["WORLD_SIZE", "MASTER_ADDR", "MASTER_PORT"])
def test_an_incomplete_environment_of_torchrun_is_an_error(
    missing: str, here, monkeypatch, capsys
) -> None:
    complete = {"RANK": "0", "WORLD_SIZE": "1", "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": "29511"}
    for name, value in complete.items():
        if name != missing:
            monkeypatch.setenv(name, value)
    assert f"RANK is set, but {missing} is not" in refusal(capsys, "--out=w")
    monkeypatch.setenv(missing, "none")
    monkeypatch.setenv("RANK", "first")
    assert "error: " in refusal(capsys, "--out=w")


def test_an_absent_device_is_an_error_of_the_command(here, monkeypatch, capsys) -> None:
    monkeypatch.setenv("DNNL_DEVICE", "gpu")
    assert "Expected one of cpu, cuda" in refusal(capsys, "--out=w")


def _leave_a_temporary_file(path: Path) -> Path:
    """Leave what a save leaves that is killed half way: a process of its own, by SIGKILL."""
    code = (
        "import os, signal, sys; from pathlib import Path; from dnnl import _safetensors\n"
        "_safetensors.save_file = lambda *_: os.kill(os.getpid(), signal.SIGKILL)\n"
        "_safetensors.write_safetensors(Path(sys.argv[1]), {}, 'x', {})"
    )
    killed = subprocess.run([sys.executable, "-c", code, str(path)], env=ENVIRONMENT)
    assert killed.returncode == -signal.SIGKILL
    (left,) = path.parent.glob(f".{path.name}.*.partial")
    return left


@pytest.mark.release
def test_the_next_save_removes_what_a_killed_save_has_left(tmp_path, images) -> None:
    path = tmp_path / "run"
    left = _leave_a_temporary_file(path)
    others = [
        tmp_path / name for name in (".run.backup", ".run.mine.partial", ".runs.abcdefgh.partial")
    ]
    for other in others:
        other.touch()
    start(images).save(path)
    assert not left.exists() and all(other.exists() for other in others)
    left.mkdir()
    _safetensors.check_writable(path)  # as every run does before its work
    assert not left.exists()


def test_a_save_leaves_the_temporary_file_of_another_that_is_still_writing(
    tmp_path, images, monkeypatch
) -> None:
    path, state = tmp_path / "run", start(images)
    real = _safetensors.save_file

    def meanwhile(*arguments: object) -> None:
        monkeypatch.setattr(_safetensors, "save_file", real)
        state.save(path)
        assert Path(str(arguments[1])).parent.is_dir()  # the folder that this save writes to
        real(*arguments)

    monkeypatch.setattr(_safetensors, "save_file", meanwhile)
    state.save(path)
    start(images).load(path)
    assert os.listdir(tmp_path) == ["run"]


@pytest.mark.release
def test_a_terminated_run_leaves_a_whole_checkpoint_and_nothing_else(tmp_path, images) -> None:
    out = tmp_path / "w"
    options = [*OPTIONS[1:], "--steps=4000", f"--out={out}", "--checkpoint-every=1"]
    process = subprocess.Popen(command(*options), env=ENVIRONMENT)
    deadline = time.monotonic() + 120
    while not (tmp_path / "w.checkpoint").exists() and time.monotonic() < deadline:
        time.sleep(0.01)
    process.send_signal(signal.SIGTERM)
    assert process.wait(60) == 128 + signal.SIGTERM
    assert os.listdir(tmp_path) == ["w.checkpoint"]
    start(images, replace(SMALL, steps=4000)).load(tmp_path / "w.checkpoint")


def _write_pictures(folder: Path, *colours: int) -> None:
    folder.mkdir(exist_ok=True)
    for name, colour in zip("ab", colours, strict=True):
        Image.new("RGB", (32, 32), (colour, 0, 0)).save(folder / f"{name}.png")


def test_a_continued_run_refuses_other_pictures_of_the_same_names(
    here, monkeypatch, capsys
) -> None:
    _write_pictures(here / "mine", 0, 200)
    options = ["--photographs=mine", "--out=w", "--checkpoint-every=1"]

    def stop(*_: object, **__: object) -> None:
        raise OSError("stopped")

    with monkeypatch.context() as patch:
        patch.setattr(ChapterModel, "save", stop)
        assert "stopped" in refusal(capsys, *options)
    _write_pictures(here / "mine", 0, 100)
    message = refusal(capsys, *options)
    assert "its photograph 'b' shows another image" in message and "--fresh" in message
    _write_pictures(here / "mine", 0, 200)
    assert training.main([*OPTIONS, *options]) == 0


def test_one_can_train_on_ones_own_photographs(tmp_path, images, monkeypatch, capsys) -> None:
    monkeypatch.setenv("DNNL_DEVICE", "cpu")
    folder = tmp_path / "mine"
    folder.mkdir()
    for name in ("cat", "coffee"):
        pixels = (images[name] * 255).byte().permute(1, 2, 0).numpy()
        Image.fromarray(pixels).save(folder / f"my {name}.png")
    out = tmp_path / "w.safetensors"
    assert training.main([*OPTIONS, f"--photographs={folder}", f"--out={out}"]) == 0
    assert ChapterModel.load(out).photographs == ("my cat", "my coffee")
    assert "accuracy" in capsys.readouterr().out
