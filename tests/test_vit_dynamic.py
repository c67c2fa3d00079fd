"""Images of any size: the table resized on the fly, remembered in eval mode, and never stale."""

import copy
import pickle
import sys
import threading
import weakref
from unittest import mock

import pytest
import torch
import torch.nn.functional as F
from torch import nn

import dnnl.models.vit as vit

NATIVE, OTHER = (2, 3, 16, 16), (2, 3, 8, 24)  # grids 4×4 and 2×6 of patches of 4 pixels


def embedding(**options):
    return vit.ViTEmbedding(16, 4, 3, 8, dynamic_image_size=True, **options).eval()


def fresh(module, x):
    """Compute the sequence from the parameters as they are now, with nothing remembered."""
    grid = module.patch_embed.grid_of(x)
    table = module.interpolate_pos_embedding(module.patch_embed.grid_size, grid)
    return module.add_cls_token(module.patch_embed(x)) + table


@pytest.fixture
def resizes():
    """Count the calls that resize: those to ``F.interpolate``."""
    with mock.patch.object(F, "interpolate", wraps=F.interpolate) as counted:
        yield counted


@pytest.mark.parametrize("size", [(8, 24), (32, 32), (4, 4), (64, 4), (16, 20)])
@pytest.mark.parametrize("prefix", [0, 1, 3])
@pytest.mark.parametrize("training", [False, True])
def test_another_size_gets_the_table_of_its_own_grid(size, prefix, training):
    module = embedding(num_prefix_tokens=prefix).train(training)
    x = torch.randn(2, 3, *size)
    out = module(x)
    assert out.shape == (2, prefix + size[0] * size[1] // 16, 8)
    assert torch.equal(out, fresh(module, x))


def test_it_resizes_even_if_the_count_of_patches_is_the_same():
    """Public report 1: 2×8 patches on a 4×4 table."""
    module = embedding()
    x = torch.randn(1, 3, 8, 32)
    assert not torch.allclose(
        module(x) - module.add_cls_token(module.patch_embed(x)), module.pos_embed.pos_embed
    )


def test_a_table_is_not_sliced_for_a_smaller_image():
    """Public report 8: an 8×8 table, a 4×4 image."""
    module = vit.ViTEmbedding(32, 4, 3, 8, dynamic_image_size=True).eval()
    x = torch.randn(1, 3, 16, 16)
    positions = module(x) - module.add_cls_token(module.patch_embed(x))
    assert not torch.allclose(positions, module.pos_embed.pos_embed[:, :17], atol=1e-3)
    table = vit.interpolate_pos_embedding(module.pos_embed.pos_embed, 8, 4)
    torch.testing.assert_close(positions, table)


def test_the_native_size_never_resizes(resizes):
    module, x = embedding(), torch.randn(NATIVE)
    static = vit.ViTEmbedding(16, 4, 3, 8)
    static.load_state_dict(module.state_dict())
    assert torch.equal(module(x), static(x))
    assert resizes.call_count == 0


def test_sizes_that_the_patch_does_not_divide_are_refused_still():
    for size in [(8, 22), (3, 16), (0, 16)]:
        with pytest.raises(vit.ShapeError, match=f"{size[0]}×{size[1]}"):
            embedding()(torch.zeros(1, 3, *size))


def test_the_table_of_a_grid_is_what_the_sequence_has_added_to_it():
    module = embedding(num_prefix_tokens=2)
    assert module.table_for((4, 4)) is module.pos_embed.pos_embed
    assert module.table_for(4) is module.pos_embed.pos_embed
    want = vit.interpolate_pos_embedding(module.pos_embed.pos_embed, 4, (2, 6), num_prefix_tokens=2)
    assert torch.equal(module.table_for((2, 6)), want)
    x = torch.randn(OTHER)
    assert torch.equal(module(x), module.add_cls_token(module.patch_embed(x)) + want)
    with pytest.raises(vit.ShapeError, match="grid_size of at least 1, but got 0"):
        module.table_for((0, 6))


# Remembered


def test_grids_of_as_many_patches_are_remembered_apart():
    module = embedding()
    for size in [(8, 24), (24, 8), (4, 48), (8, 24), (24, 8)]:
        x = torch.randn(1, 3, *size)
        assert torch.equal(module(x), fresh(module, x))


@pytest.mark.parametrize("graph", [False, True])
def test_in_eval_mode_a_size_is_resized_once(resizes, graph):
    module, x = embedding(), torch.randn(OTHER)
    with torch.set_grad_enabled(graph):
        first = module(x)
        assert all(torch.equal(module(x), first) for _ in range(3))
    assert resizes.call_count == 1


def test_in_training_mode_every_call_resizes(resizes):
    module, x = embedding().train(), torch.randn(OTHER)
    module(x)
    module(x)
    assert resizes.call_count == 2


def test_eight_sizes_are_remembered_and_the_one_longest_unused_is_forgotten(resizes):
    module = embedding()
    images = [torch.zeros(1, 3, 4, 4 * n) for n in range(1, 10)]
    with torch.no_grad():
        for x in images[:8]:
            module(x)
        assert resizes.call_count == 8
        for x in images[:8]:
            module(x)
        assert resizes.call_count == 8  # all eight are there
        module(images[0])  # the first is now the latest
        module(images[8])  # a ninth: the second must go
        assert resizes.call_count == 9
        module(images[0])
        assert resizes.call_count == 9
        module(images[1])
        assert resizes.call_count == 10
    for n in range(1, 40):
        module(torch.zeros(1, 3, 4 * n, 4))
    assert len(module._resized) == 8


# Never stale


def step(module):
    for p in module.parameters():
        p.grad = torch.ones_like(p)
    torch.optim.SGD(module.parameters(), lr=0.5).step()


def write_in_place(module):
    with torch.no_grad():
        module.pos_embed.pos_embed.mul_(3)


def write_one_number_through_data(module):
    module.pos_embed.pos_embed.data[0, 5, 3] += 1  # no version counter sees this


def swap_data(module):
    module.pos_embed.pos_embed.data = torch.randn(1, 17, 8)


def load(module):
    module.load_state_dict(vit.ViTEmbedding(16, 4, 3, 8).state_dict())


def load_by_assignment(module):
    module.load_state_dict(vit.ViTEmbedding(16, 4, 3, 8).state_dict(), assign=True)


def replace(module):
    module.pos_embed.pos_embed = nn.Parameter(torch.randn(1, 17, 8))


def train_and_return(module):
    module.train()
    module(torch.randn(OTHER)).sum().backward()
    step(module)
    module.eval()


def initialise_again(module):
    nn.init.normal_(module.pos_embed.pos_embed)


@pytest.mark.parametrize(
    "change",
    [
        step,
        write_in_place,
        write_one_number_through_data,
        swap_data,
        load,
        load_by_assignment,
        replace,
        train_and_return,
        initialise_again,
    ],
)
@pytest.mark.parametrize("graph", [False, True])
def test_what_is_remembered_is_never_stale(change, graph):
    module, x = embedding(), torch.randn(OTHER)
    with torch.set_grad_enabled(graph):
        before = module(x).detach()
        with torch.enable_grad():
            change(module)
        after = module(x)
        assert torch.equal(after, fresh(module, x))
        assert not torch.equal(after, before)


def test_a_replaced_table_of_equal_numbers_gets_the_gradient_itself():
    module, x = embedding(), torch.randn(OTHER)
    old = module.pos_embed.pos_embed
    module(x)
    module.pos_embed.pos_embed = nn.Parameter(old.detach().clone())
    module(x).sum().backward()
    assert module.pos_embed.pos_embed.grad is not None
    assert old.grad is None


@pytest.mark.parametrize("dtype", [torch.float64, torch.bfloat16, torch.float16])
def test_a_conversion_to_another_dtype_and_back_is_followed(dtype):
    module, x = embedding(), torch.randn(OTHER)
    module(x)
    module.to(dtype)
    assert torch.equal(module(x.to(dtype)), fresh(module, x.to(dtype)))
    assert module(x.to(dtype)).dtype == dtype
    module.float()
    assert torch.equal(module(x), fresh(module, x))


def test_a_table_frozen_and_thawed_again_gets_its_gradient():
    module, x = embedding(), torch.randn(OTHER)
    table = module.pos_embed.pos_embed
    table.requires_grad_(False)
    module(x).sum().backward()
    assert table.grad is None
    table.requires_grad_(True)
    module(x).sum().backward()
    assert table.grad.abs().sum() > 0


# Gradients


def test_the_gradient_reaches_the_table_in_eval_mode_and_is_that_of_training_mode():
    x, g = torch.randn(OTHER), torch.randn(2, 13, 8)
    module = embedding()
    twin = copy.deepcopy(module).train()
    module(x).backward(g)
    twin(x).backward(g)
    torch.testing.assert_close(module.pos_embed.pos_embed.grad, twin.pos_embed.pos_embed.grad)
    torch.testing.assert_close(module.pos_embed.pos_embed.grad[0, 0], g[:, 0].sum(0))


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64, torch.bfloat16])
def test_backward_passes_a_remembered_table_any_number_of_times(dtype):
    module, x = embedding().to(dtype), torch.randn(OTHER, dtype=dtype)
    table = module.pos_embed.pos_embed
    module(x).sum().backward()
    once = table.grad.clone()
    module(x).sum().backward()
    first, second = module(x), module(x)
    first.sum().backward()
    second.sum().backward()
    torch.testing.assert_close(table.grad, 4 * once)


def test_fine_tuning_in_eval_mode_learns_as_in_training_mode():
    images = [torch.randn(OTHER), torch.randn(2, 3, 32, 8)] * 3
    module = embedding()
    twin = copy.deepcopy(module).train()
    for m in (module, twin):
        optimizer = torch.optim.SGD(m.parameters(), lr=0.01)
        for x in images:
            optimizer.zero_grad()
            m(x).square().mean().backward()
            optimizer.step()
    torch.testing.assert_close(module.pos_embed.pos_embed, twin.pos_embed.pos_embed)


def test_a_table_remembered_without_gradients_does_not_rob_later_calls_of_theirs():
    for context in (torch.inference_mode, torch.no_grad):
        module, x = embedding(), torch.randn(OTHER)
        with context():
            assert not module(x).requires_grad
        module(x).sum().backward()
        assert module.pos_embed.pos_embed.grad.abs().sum() > 0
        with context():
            assert not module(x).requires_grad
        module(x).sum().backward()


def test_a_frozen_table_remembered_in_inference_mode_serves_fine_tuning():
    module, x = embedding(), torch.randn(OTHER)
    module.pos_embed.pos_embed.requires_grad_(False)
    with torch.inference_mode():
        module(x)
    assert not module.table_for((2, 6)).is_inference()
    (module.table_for((2, 6)) * module.add_cls_token.cls_token).sum().backward()
    module(x).square().sum().backward()
    assert module.patch_embed.proj.weight.grad.abs().sum() > 0


def test_inference_mode_and_no_grad_share_what_they_remember(resizes):
    module, x = embedding(), torch.randn(OTHER)
    with torch.inference_mode():
        module(x)
    with torch.no_grad():
        module(x)
    with torch.inference_mode():
        module(x)
    assert resizes.call_count == 1


def test_functional_calls_and_transforms_neither_use_nor_spoil_what_is_remembered():
    module, x = embedding(), torch.randn(OTHER)
    module(x)
    parameters = {n: p.detach() * 2 for n, p in module.named_parameters()}

    def loss(parameters, x):
        return torch.func.functional_call(module, parameters, (x,)).square().sum()

    doubled = copy.deepcopy(module)
    doubled.load_state_dict(parameters)
    grads = torch.func.grad(loss)(parameters, x)
    doubled(x).square().sum().backward()
    for name, p in doubled.named_parameters():
        torch.testing.assert_close(grads[name], p.grad)
    torch.func.grad(lambda x: module(x).sum())(x)
    each = torch.func.vmap(lambda image: module(image[None])[0])(x)
    torch.testing.assert_close(each, module(x))
    assert torch.equal(module(x), fresh(module, x))
    module(x).sum().backward()
    assert module.pos_embed.pos_embed.grad.abs().sum() > 0
    pickle.dumps(module)


def test_a_table_lent_for_one_call_is_not_kept():
    module, x = embedding(), torch.randn(OTHER)
    lent = torch.randn(1, 17, 8)
    out = torch.func.functional_call(module, {"pos_embed.pos_embed": lent}, (x,))
    table = vit.interpolate_pos_embedding(lent, 4, (2, 6))
    assert torch.equal(out, module.add_cls_token(module.patch_embed(x)) + table)
    gone = weakref.ref(lent)
    del lent, out, table
    assert gone() is None


def test_a_module_without_numbers_resizes_too():
    module = embedding().to("meta")
    for _ in range(2):
        assert module(torch.empty(OTHER, device="meta")).shape == (2, 13, 8)


def test_under_autocast_what_is_remembered_stays_in_the_tables_precision():
    module, x = embedding(), torch.randn(OTHER)
    with torch.no_grad():
        with torch.autocast("cpu", torch.bfloat16):
            assert module(x).dtype == torch.bfloat16
        assert torch.equal(module(x), fresh(module, x))


# Copies and threads


@pytest.mark.parametrize(
    "copied", [copy.deepcopy, copy.copy, lambda m: pickle.loads(pickle.dumps(m))]
)
def test_copies_drop_what_is_remembered_and_the_original_keeps_it(copied, resizes):
    module, x = embedding(), torch.randn(OTHER)
    module(x)
    twin = copied(module)
    assert len(twin._resized) == 0
    assert twin._resized is not module._resized
    assert resizes.call_count == 1
    assert torch.equal(twin(x), module(x))
    assert resizes.call_count == 2  # one more for the twin, none for the original


def test_what_is_remembered_is_no_part_of_the_state_and_weighs_nothing_in_a_pickle():
    module = embedding()
    keys, size = list(module.state_dict()), len(pickle.dumps(module))
    module(torch.randn(OTHER))
    assert list(module.state_dict()) == keys
    assert len(pickle.dumps(module)) == size


def test_threads_may_share_one_module():
    module, errors = embedding(), []

    def work(start):
        try:
            with torch.no_grad():
                for n in range(500):
                    columns = 1 + (7 * n + start) % 20
                    x = torch.zeros(1, 3, 4, 4 * columns)
                    assert module(x).shape == (1, 1 + columns, 8)
        except BaseException as error:  # a thread's error would else be printed and lost
            errors.append(error)

    interval = sys.getswitchinterval()
    sys.setswitchinterval(1e-6)
    try:
        threads = [threading.Thread(target=work, args=(start,)) for start in range(8)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    finally:
        sys.setswitchinterval(interval)
    assert errors == []
