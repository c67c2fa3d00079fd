"""Nothing stays behind on the CPU: on a fake second device always, on a GPU where there is one."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
import torch
import torch.utils.backend_registration

import dnnl.models.vit as vit

HERE = Path(__file__).resolve().parent
CASES = """linear conv hybrid class-token positions embedding embedding-no-prefix embedding-dropout
dynamic fused encoder mean max distilled bfloat16 patchify unpatchify interpolate
interpolate-identity interpolate-half""".split()


@pytest.fixture(scope="session")
def on_the_fake_device():
    """Run all cases in a process of their own; return what went wrong with each, or None."""
    if not hasattr(torch.utils.backend_registration, "_setup_privateuseone_for_python_backend"):
        pytest.skip(f"torch {torch.__version__} cannot register the fake device")
    path = os.pathsep.join([str(HERE.parent), os.environ.get("PYTHONPATH", "")])
    done = subprocess.run(
        [sys.executable, str(HERE / "fakegpu.py")],
        capture_output=True,
        text=True,
        env={**os.environ, "PYTHONPATH": path},
        timeout=120,
    )
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


def test_the_fake_device_catches_what_is_left_behind(on_the_fake_device):
    assert "device" in on_the_fake_device["control-left-behind"].lower()
    assert on_the_fake_device["control-made-there"] is None
    assert set(on_the_fake_device) == {*CASES, "control-left-behind", "control-made-there"}


@pytest.mark.parametrize("case", CASES)
def test_nothing_is_left_on_the_cpu(on_the_fake_device, case):
    assert on_the_fake_device[case] is None


# On a real accelerator

gpu = pytest.mark.skipif(
    not torch.cuda.is_available() and os.environ.get("DNNL_REQUIRE_GPU") != "1",
    reason="no CUDA device: this did NOT run on a GPU",
)


@pytest.fixture
def exact(monkeypatch):
    """Compute convolutions and products in full float32, as the CPU does."""
    monkeypatch.setattr(torch.backends.cudnn, "allow_tf32", False)
    monkeypatch.setattr(torch.backends.cuda.matmul, "allow_tf32", False)


@gpu
@pytest.mark.parametrize("options", [{}, {"pool": "mean"}, {"distillation": True}])
def test_a_gpu_gives_the_logits_and_gradients_of_the_cpu(options, exact):
    model = vit.ViTForImageClassification(16, 4, 3, 5, 8, 2, 2, 16, **options).eval()
    x = torch.randn(2, 3, 16, 16)
    want = model(x)
    want.sum().backward()
    grads = {n: p.grad for n, p in model.named_parameters()}
    model.zero_grad()
    model.cuda()
    out = model(x.cuda())
    torch.testing.assert_close(out.cpu(), want, rtol=1e-4, atol=1e-4)
    out.sum().backward()
    for name, p in model.named_parameters():
        torch.testing.assert_close(p.grad.cpu(), grads[name], rtol=1e-3, atol=1e-4)


@gpu
def test_a_dynamic_module_follows_its_table_to_a_gpu_and_back(exact):
    module = vit.ViTEmbedding(16, 4, 3, 8, dynamic_image_size=True).eval()
    x = torch.randn(2, 3, 8, 24)
    want = module(x)
    module.cuda()
    torch.testing.assert_close(module(x.cuda()).cpu(), want, rtol=1e-4, atol=1e-4)
    fused = vit.fuse(module, (8, 24))(x.cuda())
    torch.testing.assert_close(fused.cpu(), want, rtol=1e-4, atol=1e-4)
    with torch.autocast("cuda", torch.bfloat16):
        assert module(x.cuda()).dtype == torch.bfloat16
    module.cpu()
    torch.testing.assert_close(module(x), want)
