"""Checkpoints that are damaged, half there or hostile: one clear error, and no code is run."""

import argparse
import collections
import datetime
import json
import os
import pickle
import struct
import subprocess
import sys
import zipfile
from pathlib import Path

import numpy as np
import pytest
import torch
from checkpoints import jax_arrays, named_as_timm
from peers import peer
from safetensors.torch import save_file

import dnnl.models.vit as vit

PROJECT = Path(vit.__file__).parents[3]
READERS = [
    pytest.param(lambda path: vit.load_pretrained(path, num_heads=4), id="load"),
    pytest.param(vit.extract_pos_embedding, id="extract"),
]


def state():
    """Return a small ViT with the names of timm."""
    return named_as_timm(vit.ViTForImageClassification(16, 4, 3, 7, 16, 4, 1, 32))


def save(path):
    """Save a small ViT in the kind of file that the name says."""
    if path.suffix == ".npz":
        np.savez(path, **jax_arrays())
    elif path.suffix == ".safetensors":
        save_file(state(), path)
    else:
        torch.save(state(), path, _use_new_zipfile_serialization=path.suffix != ".pth")
    return path


KINDS = ["x.safetensors", "x.npz", "x.pt", "x.pth"]


@pytest.mark.parametrize("name", KINDS)
@pytest.mark.parametrize("read", READERS)
def test_a_file_that_ends_too_early_is_an_error_wherever_it_ends(name, read, tmp_path):
    whole = save(tmp_path / name).read_bytes()
    read(tmp_path / name)
    ends = {0, 1, 7, 8, 9, 100, len(whole) // 3, len(whole) // 2, len(whole) - 1}
    if name == "x.pth":  # a pickle, then the numbers; the extraction may find all it asks for
        ends -= {len(whole) - 1} if read is vit.extract_pos_embedding else set()
    for end in ends:
        (tmp_path / name).write_bytes(whole[:end])
        with pytest.raises(vit.CheckpointError, match=r"x\.\w+"):
            read(tmp_path / name)


@pytest.mark.parametrize("name", KINDS)
@pytest.mark.parametrize("read", READERS)
@pytest.mark.parametrize("content", [b"<!doctype html><title>404</title>", os.urandom(4096)])
def test_something_else_under_the_name_is_an_error(name, read, content, tmp_path):
    (tmp_path / name).write_bytes(content)
    with pytest.raises(vit.CheckpointError):
        read(tmp_path / name)


@pytest.mark.parametrize("read", READERS)
def test_no_file_and_no_kind_of_file_are_errors(read, tmp_path):
    for source in (tmp_path / "absent.safetensors", tmp_path / "no-such-folder", "absent.npz"):
        with pytest.raises(vit.CheckpointError, match="File not found"):
            read(source)
    (tmp_path / "x.ckpt").write_bytes(b"")
    with pytest.raises(vit.CheckpointError, match=r"ends in \.safetensors"):
        read(tmp_path / "x.ckpt")
    (tmp_path / "empty").mkdir()
    with pytest.raises(vit.CheckpointError, match=r"no model\.safetensors"):
        read(tmp_path / "empty")


class Runs:
    """Unpickled, it makes a folder: a hostile checkpoint would do worse."""

    def __init__(self, path):
        self.path = path

    def __reduce__(self):
        return (os.mkdir, (str(self.path),))


@pytest.mark.parametrize("read", READERS)
@pytest.mark.parametrize("kind", ["zip.pt", "legacy.pth", "plain.bin", "proto0.pt", "object.npz"])
def test_no_code_in_a_file_is_run(kind, read, tmp_path):
    mark, path = tmp_path / "was-here", tmp_path / kind
    content = {**state(), "extra": Runs(mark)}
    if kind == "zip.pt":
        torch.save(content, path)
    elif kind == "legacy.pth":
        torch.save(content, path, _use_new_zipfile_serialization=False)
    elif kind == "object.npz":
        np.savez(path, **jax_arrays(), extra=np.array([Runs(mark)], dtype=object))
    else:
        path.write_bytes(pickle.dumps(content, protocol=0 if "proto0" in kind else None))
    with pytest.raises(vit.CheckpointError):
        read(path)
    assert not mark.exists()
    # It is a live one: who trusts it runs it.
    if kind == "object.npz":
        np.load(path, allow_pickle=True)["extra"]
    elif kind in ("plain.bin", "proto0.pt"):
        pickle.loads(path.read_bytes())
    else:
        torch.load(path, weights_only=False)
    assert mark.exists()


@pytest.mark.parametrize("read", READERS)
def test_a_value_that_is_not_a_tensor_is_an_error(read, tmp_path):
    path = tmp_path / "x.pt"
    sparse = torch.eye(16).to_sparse()
    repeated = torch.zeros(1).expand(10**12)  # four bytes that would fill four terabytes
    for content in (
        [torch.zeros(2)],
        torch.zeros(2),
        {**state(), "extra": 1},
        {**state(), 3: torch.zeros(2)},
        {**state(), "extra": sparse},
        {**state(), "norm.weight": repeated},
    ):
        torch.save(content, path)
        with pytest.raises(vit.CheckpointError, match=r"x\.pt"):
            read(path)


# Archives.


@pytest.mark.parametrize("read", READERS)
def test_an_archive_that_unpacks_to_far_more_than_it_holds_is_not_unpacked(read, tmp_path):
    path = tmp_path / "bomb.npz"
    arrays = jax_arrays()
    arrays["Transformer/posembed_input/pos_embedding"] = np.zeros((1, 1 + 1200**2, 16), "f4")
    np.savez_compressed(path, **arrays)
    assert path.stat().st_size < 200_000
    with pytest.raises(vit.CheckpointError, match="unpack"):
        read(path)


def test_a_torch_archive_is_looked_at_too(tmp_path):
    torch.save(state(), tmp_path / "plain.pt")
    with (
        zipfile.ZipFile(tmp_path / "plain.pt") as source,
        zipfile.ZipFile(tmp_path / "bomb.pt", "w", zipfile.ZIP_DEFLATED) as target,
    ):
        for entry in source.infolist():
            target.writestr(entry.filename, source.read(entry))
        target.writestr("plain/data/999", bytes(65 << 20))
    with pytest.raises(vit.CheckpointError, match="unpack"):
        vit.load_pretrained(tmp_path / "bomb.pt", num_heads=4)


def npy(shape, dtype="<f4", data=b"", order=False):
    header = repr({"descr": dtype, "fortran_order": order, "shape": shape}).encode() + b"\n"
    return b"\x93NUMPY\x01\x00" + struct.pack("<H", len(header)) + header + data


@pytest.mark.parametrize(
    "member",
    [
        npy((1, 17, 16)),  # no numbers
        npy((1, 17, 16), data=bytes(4 * 17 * 16 - 1)),
        npy((1, 17, 16), data=bytes(4 * 17 * 16 + 1)),
        npy((1, 2**62, 2**62), data=bytes(64)),  # the product overflows
        npy((1, -17, 16), data=bytes(64)),
        npy((1, 17, 16), dtype="|O", data=bytes(8 * 17 * 16)),
        npy((1, 17, 16), dtype="<i4", data=bytes(4 * 17 * 16)),
        npy((1, 17, 16), dtype="<c8", data=bytes(8 * 17 * 16)),
        npy((1, 17, 16), dtype="<f16", data=bytes(16 * 17 * 16)),
        npy("os.getcwd()", data=bytes(64)),
        npy((1, 17, 16), dtype="nonsense", data=bytes(4 * 17 * 16)),
        b"\x93NUMPY\x09\x00" + bytes(100),
        b"no array",
        b"",
    ],
)
@pytest.mark.parametrize("read", READERS)
def test_an_array_that_contradicts_its_header_is_an_error(member, read, tmp_path):
    table, arrays = "Transformer/posembed_input/pos_embedding", jax_arrays()
    del arrays[table]
    np.savez(tmp_path / "x.npz", **arrays)
    with zipfile.ZipFile(tmp_path / "x.npz", "a") as archive:
        archive.writestr(table + ".npy", member)
    with pytest.raises(vit.CheckpointError, match=r"x\.npz|pos_embedding"):
        read(tmp_path / "x.npz")


def test_two_arrays_of_one_name_and_a_flipped_bit_are_errors(tmp_path):
    path = save(tmp_path / "x.npz")
    whole = bytearray(path.read_bytes())
    with zipfile.ZipFile(path) as archive:
        entry = archive.getinfo("Transformer/posembed_input/pos_embedding.npy")
    whole[entry.header_offset + 600] ^= 1
    path.write_bytes(whole)
    with pytest.raises(vit.CheckpointError, match="CRC"):
        vit.extract_pos_embedding(path)
    save(path)
    with zipfile.ZipFile(path, "a") as archive, pytest.warns(UserWarning, match="Duplicate"):
        archive.writestr("cls.npy", npy((1, 1, 16), data=bytes(64)))
    with pytest.raises(vit.CheckpointError, match="cls"):
        vit.load_pretrained(path)


def safetensors(header, data=b"", length=None):
    head = header if isinstance(header, bytes) else json.dumps(header).encode()
    return struct.pack("<Q", len(head) if length is None else length) + head + data


def entry(first, last, shape=(16,), dtype="F32"):
    return {"dtype": dtype, "shape": list(shape), "data_offsets": [first, last]}


@pytest.mark.parametrize(
    "content",
    [
        safetensors({}, length=2**63),
        safetensors({}, length=10**9),
        safetensors(b"{not json"),
        safetensors(b"[]"),
        safetensors({"a": 1}),
        safetensors({"a": entry(0, 64)}, bytes(32)),
        safetensors({"a": entry(0, 64)}, bytes(65)),
        safetensors({"a": entry(-64, 0)}, bytes(64)),
        safetensors({"a": entry(64, 0)}, bytes(64)),
        safetensors({"a": entry(0, 64), "b": entry(32, 96)}, bytes(96)),
        safetensors({"a": entry(0, 64, (2**40, 2**40))}, bytes(64)),
        safetensors({"a": entry(0, 64, (-16,))}, bytes(64)),
        safetensors({"a": entry(0, 64, dtype="PICKLE")}, bytes(64)),
        safetensors(b'{"a":' * 100_000),
    ],
)
@pytest.mark.parametrize("read", READERS)
def test_a_header_that_lies_is_an_error(content, read, tmp_path):
    (tmp_path / "x.safetensors").write_bytes(content)
    with pytest.raises(vit.CheckpointError, match=r"x\.safetensors cannot be read"):
        read(tmp_path / "x.safetensors")


@pytest.mark.parametrize(
    "file",
    [
        "../outside.safetensors",
        "/etc/outside.safetensors",
        "sub/inside.safetensors",
        "a\\b.safetensors",
        "..",
        "x.bin",
        "model.safetensors\n",
        "",
        3,
        None,
    ],
)
@pytest.mark.parametrize("read", READERS)
def test_an_index_names_files_beside_it_and_no_others(file, read, tmp_path):
    inside = tmp_path / "inside"
    (inside / "sub").mkdir(parents=True)
    for path in (tmp_path / "outside.safetensors", inside / "sub" / "inside.safetensors"):
        save_file(state(), path)
    index = {"weight_map": dict.fromkeys(state(), file)}
    (inside / "model.safetensors.index.json").write_text(json.dumps(index))
    with pytest.raises(vit.CheckpointError, match="beside"):
        read(inside)


@pytest.mark.parametrize("index", ["[]", "{}", '{"weight_map": []}', "{", "[" * 100_000, "\xff"])
@pytest.mark.parametrize("read", READERS)
def test_an_index_that_is_not_an_index_is_an_error(index, read, tmp_path):
    (tmp_path / "model.safetensors.index.json").write_bytes(index.encode("latin-1"))
    with pytest.raises(vit.CheckpointError, match="index"):
        read(tmp_path)


@pytest.mark.parametrize("read", READERS)
def test_an_index_lists_what_its_files_hold(read, tmp_path):
    save_file(state(), tmp_path / "a.safetensors")
    files = dict.fromkeys([*state(), "lost.weight"], "a.safetensors")
    (tmp_path / "model.safetensors.index.json").write_text(json.dumps({"weight_map": files}))
    with pytest.raises(vit.CheckpointError, match=r"lost\.weight"):
        read(tmp_path)
    save_file({"cls_token": torch.zeros(1, 1, 16)}, tmp_path / "b.safetensors")
    files = dict.fromkeys(state(), "a.safetensors") | {"norm.bias": "b.safetensors"}
    (tmp_path / "model.safetensors.index.json").write_text(json.dumps({"weight_map": files}))
    with pytest.raises(vit.CheckpointError, match="twice"):
        read(tmp_path)


@pytest.mark.parametrize(
    "name", ["../x.safetensors", "/x.safetensors", "a\\b", "", ".hidden", "a//b"]
)
@pytest.mark.parametrize("read", [vit.load_pretrained, vit.extract_pos_embedding])
@pytest.mark.parametrize("source", ["folder", "owner/name"])
def test_a_filename_stays_in_its_folder(name, read, source, tmp_path):
    save_file(state(), tmp_path / "x.safetensors")
    (tmp_path / "folder").mkdir()
    with pytest.raises(vit.CheckpointError, match="name of a file in the repository|safetensors"):
        read(str(tmp_path / source) if source == "folder" else source, filename=name)


def test_a_file_of_a_folder_may_be_named(tmp_path):
    (tmp_path / "sub").mkdir()
    save_file(state(), tmp_path / "sub" / "last.safetensors")
    assert vit.load_pretrained(tmp_path, filename="sub/last.safetensors", num_heads=4)
    assert vit.extract_pos_embedding(tmp_path, filename="sub/last.safetensors").grid_size == (4, 4)


@pytest.mark.parametrize("config", ["[]", "{", "[" * 100_000, "\xff"])
def test_a_configuration_that_is_not_an_object_is_an_error(config, tmp_path):
    save_file(state(), tmp_path / "model.safetensors")
    (tmp_path / "config.json").write_bytes(config.encode("latin-1"))
    with pytest.raises(vit.CheckpointError, match=r"config\.json"):
        vit.load_pretrained(tmp_path, num_heads=4)
    assert vit.load_pretrained(tmp_path, num_heads=4, config={})  # in place of that file


def test_a_huge_configuration_is_not_read(tmp_path):
    save_file(state(), tmp_path / "model.safetensors")
    with open(tmp_path / "config.json", "wb") as file:
        file.truncate(10**9)  # a sparse file
    with pytest.raises(vit.CheckpointError, match="too large"):
        vit.load_pretrained(tmp_path, num_heads=4)


def test_torch_alone_is_enough_for_its_own_files_and_the_extra_is_named_for_the_hub(tmp_path):
    path = save(tmp_path / "x.pt")
    code = f"""
import sys, torch
for absent in ("numpy", "safetensors", "huggingface_hub", "scipy", "transformers", "timm"):
    sys.modules[absent] = None  # an import of it raises
import dnnl.models.vit as vit
for source in (torch.load({str(path)!r}), {str(path)!r}):
    print(vit.load_pretrained(source, num_heads=4)(torch.zeros(2, 3, 16, 16)).shape)
    print(vit.extract_pos_embedding(source).table.shape)
for read in (vit.load_pretrained, vit.extract_pos_embedding):
    try:
        read("owner/name")
    except ImportError as error:
        print(error)
"""
    done = subprocess.run(
        [sys.executable, "-W", "ignore", "-c", code], capture_output=True, text=True, cwd=PROJECT
    )
    lines = done.stdout.splitlines()
    assert lines[:4] == 2 * ["torch.Size([2, 7])", "torch.Size([1, 17, 16])"], done.stderr
    assert len(lines) == 6 and all("pip install 'dnnl[pretrained]'" in line for line in lines[4:])


def test_of_averaged_weights_and_raw_ones_those_are_taken_that_timm_takes(tmp_path):
    load = peer("timm.models").load_state_dict
    raw, ema = state(), {name: value + 1 for name, value in state().items()}
    for content in (
        {"model": raw, "model_ema": ema},
        {"state_dict": raw, "state_dict_ema": ema},
        {"model_ema": ema},
        {"state_dict_ema": ema, "epoch": 3},
        {"model": ema, "state_dict": raw},
        {"model": raw},
    ):
        torch.save(content, tmp_path / "x.pt")
        want = load(str(tmp_path / "x.pt"))["pos_embed"]
        for source in (content, tmp_path / "x.pt"):
            assert torch.equal(vit.extract_pos_embedding(source).table, want)
            model = vit.load_pretrained(source, num_heads=4)
            assert torch.equal(model.backbone.embedding.pos_embed.pos_embed, want)


@pytest.mark.parametrize("keys", [("net",), ("teacher", "student"), ("teacher",)])
@pytest.mark.parametrize("read", READERS)
def test_weights_under_other_keys_are_an_error_that_names_the_keys(keys, read):
    with pytest.raises(vit.CheckpointError, match=".*".join(map(repr, keys))):
        read(dict.fromkeys(keys, state()))


@pytest.mark.parametrize("prefix", ["backbone.", "model.", "teacher.backbone.", "module.module."])
def test_a_prefix_is_an_error_that_says_to_remove_it(prefix):
    renamed = {prefix + name: value for name, value in state().items()}
    with pytest.raises(vit.CheckpointError, match=r"[Rr]emove a prefix"):
        vit.load_pretrained(renamed, num_heads=4)


@pytest.mark.parametrize(
    "extra",
    [
        np.float64(1.0),
        np.arange(3),
        argparse.Namespace(lr=0.1),
        collections.defaultdict(int),
        datetime.datetime(2026, 1, 1),
    ],
    ids=lambda value: type(value).__name__,
)
@pytest.mark.parametrize("read", READERS)
def test_bookkeeping_beside_the_weights_is_an_error_that_says_what_to_do(extra, read, tmp_path):
    torch.save({"model": state(), "extra": extra}, tmp_path / "x.pt")
    kind = type(extra).__module__.partition(".")[0]
    with pytest.raises(vit.CheckpointError, match=rf"{kind}.*weights_only=False.*safe_globals"):
        read(tmp_path / "x.pt")
    loaded = torch.load(tmp_path / "x.pt", weights_only=False)
    assert read(loaded)


def nested():
    """Return a tuple that is quickly made, and takes 2**60 steps to hash."""
    value = ("x",)
    for _ in range(60):
        value = (value, value)
    return value


HOSTILE = {
    "bytearray": b"\x80\x02cbuiltins\nbytearray\nJ\x00\x00\x00\x7f\x85R.",
    "nested": pickle.dumps([nested(), 1], 2).replace(b"]q\x00(", b"}q\x00(").replace(b"e.", b"u."),
}


@pytest.mark.parametrize("read", READERS)
@pytest.mark.parametrize("kind", HOSTILE)
@pytest.mark.parametrize("name", ["y.pt", "y.pth"])
def test_a_few_bytes_that_ask_for_gigabytes_or_hours_are_refused(name, kind, read, tmp_path):
    torch.save(state(), tmp_path / "x.pt")
    (tmp_path / "y.pth").write_bytes(HOSTILE[kind])
    with (
        zipfile.ZipFile(tmp_path / "x.pt") as source,
        zipfile.ZipFile(tmp_path / "y.pt", "w") as target,
    ):
        for entry in source.infolist():
            data = HOSTILE[kind] if entry.filename.endswith("data.pkl") else source.read(entry)
            target.writestr(entry.filename, data)
    with pytest.raises(vit.CheckpointError, match=kind):
        read(tmp_path / name)


@pytest.mark.parametrize("source", ["x" * 5000, "a\0b.pt", "folder/" + "y" * 300 + ".npz"])
@pytest.mark.parametrize("read", READERS)
def test_a_path_that_no_file_can_have_is_not_found(source, read):
    with pytest.raises(vit.CheckpointError, match="File not found"):
        read(source)


def test_an_error_of_our_own_is_not_disguised_as_one_of_the_file(monkeypatch):
    def broken(*_args, **_kwargs):
        raise AttributeError("a bug")

    monkeypatch.setattr(vit.ViTEmbedding, "__init__", broken)
    with pytest.raises(AttributeError, match="a bug"):
        vit.load_pretrained(state(), num_heads=4)


def test_float8_weights_with_layer_scale_load_or_are_an_error_of_the_checkpoint():
    weights = {name: value.to(torch.float8_e4m3fn) for name, value in state().items()}
    weights["blocks.0.ls1.gamma"] = weights["blocks.0.ls2.gamma"] = torch.ones(16)
    try:
        assert vit.load_pretrained(weights, num_heads=4)
    except vit.CheckpointError:
        pass
