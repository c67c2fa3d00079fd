"""Recorded and compiled models compute what the model does."""

import shutil

import pytest
import torch

import dnnl.models.vit as vit

deprecated = pytest.mark.filterwarnings("ignore:.torch.jit:DeprecationWarning")
ANY_BATCH = ({0: torch.export.Dim.DYNAMIC},)


def hybrid():
    return vit.ViTHybridPatchEmbedding(torch.nn.Conv2d(3, 4, 2, stride=2), 16, 2, 3, 8)


def classifier(**options):
    return vit.ViTForImageClassification(16, 4, 3, 5, 8, 2, 2, 16, **options).eval()


MODULES = {
    "linear": lambda: vit.ViTLinearPatchEmbedding(16, 4, 3, 8),
    "conv": lambda: vit.ViTConvPatchEmbedding(16, 4, 3, 8),
    "hybrid": hybrid,
    "embedding": lambda: vit.ViTEmbedding(16, 4, 3, 8),
    "no-prefix": lambda: vit.ViTEmbedding(16, 4, 3, 8, num_prefix_tokens=0),
    "dynamic": lambda: vit.ViTEmbedding(16, 4, 3, 8, dynamic_image_size=True).eval(),
    "cls": classifier,
    "mean": lambda: classifier(pool="mean"),
    "max": lambda: classifier(pool="max"),
    "distilled": lambda: classifier(distillation=True),
}
every_module = pytest.mark.parametrize("make", MODULES.values(), ids=MODULES)


@deprecated  # and every other warning is an error, TracerWarning above all
@every_module
def test_a_jit_trace_warns_of_nothing_and_follows_the_batch(make):
    module = make()
    for graph in (False, True):  # what a trace records may depend on it
        with torch.set_grad_enabled(graph):
            traced = torch.jit.trace(module, torch.randn(2, 3, 16, 16))
            x = torch.randn(5, 3, 16, 16)
            torch.testing.assert_close(traced(x), module(x))


@deprecated
def test_a_jit_trace_at_another_size_keeps_its_hold_on_the_table():
    module = vit.ViTEmbedding(16, 4, 3, 8, dynamic_image_size=True).eval()
    x = torch.randn(2, 3, 8, 24)
    module(x)  # remembered, and yet no constant of the trace
    traced = torch.jit.trace(module, x)
    with torch.no_grad():
        module.pos_embed.pos_embed.mul_(2)
    torch.testing.assert_close(traced(x), module(x))


@deprecated
def test_a_trace_of_a_wrong_size_is_refused_as_the_call_is():
    module = vit.ViTEmbedding(16, 4, 3, 8)
    with pytest.raises(vit.ShapeError, match="16×16, but got 8×32"):
        torch.jit.trace(module, torch.randn(1, 3, 8, 32))


@every_module
def test_an_export_follows_the_batch(make):
    module = make()
    program = torch.export.export(module, (torch.randn(2, 3, 16, 16),), dynamic_shapes=ANY_BATCH)
    for batch in (1, 3):
        x = torch.randn(batch, 3, 16, 16)
        torch.testing.assert_close(program.module()(x), module(x))


def test_an_export_at_another_size_resizes_in_its_graph():
    module = vit.ViTEmbedding(16, 4, 3, 8, dynamic_image_size=True).eval()
    x = torch.randn(2, 3, 8, 24)
    module(x)
    program = torch.export.export(module, (x,), dynamic_shapes=ANY_BATCH)
    torch.testing.assert_close(program.module()(x[:1]), module(x[:1]))
    assert "upsample_bicubic" in str(program.graph)


def test_an_export_returns_attention_too():
    module = classifier()
    program = torch.export.export(module, (torch.randn(2, 3, 16, 16),), {"return_attention": True})
    x = torch.randn(2, 3, 16, 16)
    logits, attention = program.module()(x, return_attention=True)
    torch.testing.assert_close(logits, module(x))
    assert [a.shape for a in attention] == [(2, 2, 17, 17)] * 2


@pytest.mark.parametrize("name", ["linear", "hybrid", "embedding", "mean", "distilled"])
def test_a_compiled_module_is_one_graph_with_the_same_output_and_gradients(name):
    """The backend here records and differentiates, but generates no code."""
    torch.compiler.reset()
    module, x = MODULES[name](), torch.randn(2, 3, 16, 16)
    compiled = torch.compile(module, fullgraph=True, backend="aot_eager")
    out = compiled(x)
    torch.testing.assert_close(out, module(x))
    out.sum().backward()
    grads = {n: p.grad.clone() for n, p in module.named_parameters()}
    module.zero_grad()
    module(x).sum().backward()
    for name, p in module.named_parameters():
        torch.testing.assert_close(grads[name], p.grad)


def test_a_compiled_dynamic_module_follows_sizes_and_the_table():
    torch.compiler.reset()
    module = vit.ViTEmbedding(16, 4, 3, 8, dynamic_image_size=True).eval()
    compiled = torch.compile(module, fullgraph=True, backend="aot_eager")
    for size in [(8, 24), (16, 16), (32, 8)]:
        x = torch.randn(2, 3, *size)
        torch.testing.assert_close(compiled(x), module(x))
    with torch.no_grad():
        module.pos_embed.pos_embed.mul_(2)
    torch.testing.assert_close(compiled(x), module(x))


@deprecated
def test_generated_code_computes_the_same():
    if shutil.which("g++") is None and shutil.which("clang++") is None:
        pytest.skip("no C++ compiler: torch.compile generated NO code here")
    torch.compiler.reset()
    module, x = vit.ViTEmbedding(16, 4, 3, 8), torch.randn(2, 3, 16, 16)
    compiled = torch.compile(module, fullgraph=True)
    torch.testing.assert_close(compiled(x), module(x))
