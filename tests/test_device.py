"""``dnnl.device()``: one name, one device, or a clear error."""

import pytest
import torch

import dnnl
from dnnl import _device


@pytest.fixture(autouse=True)
def nothing_asked(monkeypatch):
    monkeypatch.delenv("DNNL_DEVICE", raising=False)


@pytest.fixture
def present(monkeypatch):
    """Pretend which accelerators this machine has."""

    def pretend(*kinds):
        for kind in ("cuda", "mps", "xpu"):
            monkeypatch.setitem(_device._AVAILABLE, kind, lambda kind=kind: kind in kinds)

    pretend()
    return pretend


def test_the_four_kinds_ask_torch_itself_whether_they_are_there():
    assert list(_device._AVAILABLE) == ["cpu", "cuda", "mps", "xpu"]
    assert _device._AVAILABLE["cpu"]() is True
    assert _device._AVAILABLE["cuda"] is torch.cuda.is_available
    assert _device._AVAILABLE["mps"] is torch.backends.mps.is_available
    assert _device._AVAILABLE["xpu"] is torch.xpu.is_available


def test_a_tensor_can_be_made_on_the_device_that_is_chosen():
    assert torch.zeros(2, device=dnnl.device()).device.type == dnnl.device().type
    assert torch.zeros(2, device=dnnl.device("cpu")).device.type == "cpu"


@pytest.mark.parametrize(
    ("kinds", "chosen"),
    [
        ((), "cpu"),
        (("cuda",), "cuda"),
        (("mps",), "mps"),
        (("xpu",), "xpu"),
        (("xpu", "mps"), "mps"),
        (("xpu", "mps", "cuda"), "cuda"),
    ],
)
@pytest.mark.parametrize("asked", [None, "auto", "AUTO ", ""])
def test_auto_takes_the_first_accelerator_that_is_present(
    present, monkeypatch, kinds, chosen, asked
):
    present(*kinds)
    if asked is not None:
        monkeypatch.setenv("DNNL_DEVICE", asked)
    assert dnnl.device() == torch.device(chosen)
    assert dnnl.device("auto") == torch.device(chosen)


def test_the_environment_decides_unless_a_name_is_given(present, monkeypatch):
    present("cuda", "mps")
    monkeypatch.setenv("DNNL_DEVICE", "mps")
    assert dnnl.device() == torch.device("mps")
    assert dnnl.device("cpu") == torch.device("cpu")
    monkeypatch.setenv("DNNL_DEVICE", "cpu")
    assert dnnl.device() == torch.device("cpu")


@pytest.mark.parametrize("kind", ["cuda", "mps", "xpu"])
def test_an_absent_device_is_an_error_that_says_what_to_do(present, monkeypatch, kind):
    with pytest.raises(RuntimeError, match=f"'{kind}' is absent here: torch .*Choose 'cpu'"):
        dnnl.device(kind)
    monkeypatch.setenv("DNNL_DEVICE", kind)
    with pytest.raises(RuntimeError, match=f"'{kind}' .from the environment variable DNNL_DEVICE"):
        dnnl.device()


def test_a_torch_device_is_taken_as_it_is_index_included(present):
    present("cuda")
    for asked in ("cpu", "cpu:0", "cuda", "cuda:1"):
        assert dnnl.device(torch.device(asked)) == torch.device(asked)
    with pytest.raises(RuntimeError, match="'mps' is absent here"):
        dnnl.device(torch.device("mps"))
    with pytest.raises(RuntimeError, match="'cpu:7' is absent here"):
        dnnl.device(torch.device("cpu", 7))
    for other in (torch.device("meta"), 0):
        with pytest.raises(ValueError, match="one of cpu, cuda, mps, xpu, auto"):
            dnnl.device(other)


@pytest.mark.parametrize("name", ["gpu", "cuda:0", "tpu", "", "cpu cuda"])
def test_another_name_is_an_error_that_lists_the_five(monkeypatch, name):
    with pytest.raises(ValueError, match=f"one of cpu, cuda, mps, xpu, auto .*but got '{name}'"):
        dnnl.device(name)
    if name:
        monkeypatch.setenv("DNNL_DEVICE", name)
        with pytest.raises(ValueError, match=f"got '{name}' .from the environment variable"):
            dnnl.device()


def test_cuda_is_asked_for_full_float32_convolutions(present, monkeypatch):
    present("cuda")
    monkeypatch.setattr(torch.backends.cudnn, "allow_tf32", True)
    dnnl.device("cpu")
    assert torch.backends.cudnn.allow_tf32 is True
    dnnl.device("cuda")
    assert torch.backends.cudnn.allow_tf32 is False
