"""Checkpoints from a hub: whole models by download, tables by range requests; never the network."""

import json
import os
import re
import struct
import subprocess
import sys
from pathlib import Path

import pytest
import torch
from checkpoints import named_as_timm, vit_b16, write_sparse
from hub_server import serve
from peers import peer
from safetensors.torch import save_file

import dnnl.models.vit as vit

PROJECT = Path(vit.__file__).parents[3]
ID = "owner/vit.tiny-16"


@pytest.fixture
def hub(tmp_path, monkeypatch):
    """A hub on this machine with one empty repository; the library asks it and no other."""
    huggingface_hub = pytest.importorskip("huggingface_hub")
    (tmp_path / "hub" / ID).mkdir(parents=True)
    constants = pytest.importorskip("huggingface_hub.constants")
    with serve(tmp_path / "hub") as server:
        monkeypatch.setattr(constants, "ENDPOINT", server.url)
        template = server.url + "/{repo_id}/resolve/{revision}/{filename}"
        monkeypatch.setattr(constants, "HUGGINGFACE_CO_URL_TEMPLATE", template)
        monkeypatch.setattr(constants, "HF_HUB_CACHE", str(tmp_path / "cache"))
        monkeypatch.setattr(constants, "HF_HUB_OFFLINE", False)
        server.repository = server.folder / ID
        yield server
        huggingface_hub.close_session()


TABLE = "vit.embeddings.position_embeddings"


@pytest.mark.parametrize("padding", [0, 200_000], ids=["short header", "long header"])
@pytest.mark.parametrize("cdn", [False, True], ids=["direct", "redirected"])
def test_of_hundreds_of_megabytes_only_the_table_is_read(padding, cdn, hub):
    table = torch.randn(1, 197, 768)
    write_sparse(hub.repository / "model.safetensors", vit_b16(), padding, **{TABLE: table})
    assert (hub.repository / "model.safetensors").stat().st_size > 300_000_000
    with serve(hub.folder) as other:
        hub.cdn = other.url if cdn else ""
        found = vit.extract_pos_embedding(ID, token="hf_secret")
        assert torch.equal(found.table, table)
        assert found.grid_size == (14, 14) and found.num_prefix_tokens == 1
        assert hub.sent + other.sent < table.nbytes + 70_000 + padding
        requests = 3 if padding else 2
        assert [a[0] for a in hub.asked] == ["GET"] * requests
        assert all(a[3] == "Bearer hf_secret" for a in hub.asked)
        if cdn:
            assert hub.sent == 0 and len(other.asked) == requests
            assert not any(a[3] for a in other.asked)  # the token is nobody else's


def small_state():
    model = vit.ViTForImageClassification(16, 4, 3, 7, 64, 1, 1, 32)
    return model.eval(), named_as_timm(model)


def test_a_model_in_several_files_is_read_where_its_table_is(hub):
    _, state = small_state()
    index = {"weight_map": {name: "rest.safetensors" for name in state}}
    for name in ("pos_embed", "cls_token"):
        index["weight_map"][name] = name + ".safetensors"
        save_file({name: state.pop(name)}, hub.repository / (name + ".safetensors"))
    save_file(state, hub.repository / "rest.safetensors")
    (hub.repository / "model.safetensors.index.json").write_text(json.dumps(index))
    found = vit.extract_pos_embedding(ID)
    assert found.num_prefix_tokens == 1 and found.table.shape == (1, 17, 64)
    assert not any("rest" in path for _, path, _, _ in hub.asked)
    model = vit.load_pretrained(ID)
    assert torch.equal(model.backbone.embedding.pos_embed.pos_embed, found.table)


@pytest.mark.parametrize("dtype", [torch.float64, torch.float32, torch.float16, torch.bfloat16])
def test_a_table_comes_in_its_own_precision(dtype, hub):
    state = {name: value.to(dtype) for name, value in small_state()[1].items()}
    save_file(state, hub.repository / "model.safetensors")
    found = vit.extract_pos_embedding(ID)
    assert found.table.dtype == dtype and torch.equal(found.table, state["pos_embed"])


def test_a_revision_and_a_file_may_be_named(hub):
    _, state = small_state()
    (hub.repository / "sub").mkdir()
    save_file(state, hub.repository / "sub" / "ema.safetensors")
    assert vit.extract_pos_embedding(ID, filename="sub/ema.safetensors", revision="v1")
    assert {path for _, path, _, _ in hub.asked} == {f"/{ID}/resolve/v1/sub/ema.safetensors"}
    assert vit.load_pretrained(ID, filename="sub/ema.safetensors", revision="v1")
    for read in (vit.extract_pos_embedding, vit.load_pretrained):
        with pytest.raises(vit.CheckpointError, match="Revision"):
            read(ID, filename="sub/ema.safetensors", revision="gone")


@pytest.mark.parametrize("cdn", [False, True], ids=["direct", "redirected"])
@pytest.mark.parametrize("file", ["model.safetensors", "pytorch_model.bin"])
def test_a_whole_model_is_downloaded_with_its_configuration(file, cdn, hub):
    model, state = small_state()
    if file.endswith("bin"):
        torch.save(state, hub.repository / file)
    else:
        save_file(state, hub.repository / file)
    config = {"architecture": "vit_x", "model_args": {"num_heads": 4}, "global_pool": "avg"}
    (hub.repository / "config.json").write_text(json.dumps(config))
    with serve(hub.folder) as other:
        hub.cdn = other.url if cdn else ""
        loaded = vit.load_pretrained(ID)
        assert loaded.backbone.encoder.layers[0].attn.num_heads == 4 and loaded.head.pool == "mean"
        loaded = vit.load_pretrained(ID, num_heads=1, pool="cls")
    x = torch.randn(2, 3, 16, 16)
    torch.testing.assert_close(loaded(x), model(x))


EXTRACT, LOAD = vit.extract_pos_embedding, vit.load_pretrained


@pytest.mark.parametrize(
    ("behaviour", "match"),
    [
        ("no ranges", "does not support HTTP range requests"),
        ("no content range", "does not support HTTP range requests"),
        ("shifted", "does not support HTTP range requests"),
        ("short", "bytes where"),
        ("long", "bytes where|cannot be read"),
        ("endless", "bytes where"),
        ("cut", "cannot be read"),
        ("401", "gated"),
        ("503", "503"),
    ],
)
def test_a_server_that_misbehaves_is_an_error_of_one_kind(behaviour, match, hub):
    write_sparse(hub.repository / "model.safetensors", vit_b16())
    hub.behaviour = behaviour
    with pytest.raises(vit.CheckpointError, match=match):
        vit.extract_pos_embedding(ID)
    assert hub.sent < 20_000_000  # what was on its way when it was left


@pytest.mark.parametrize("behaviour", ["cut", "401", "503"])
def test_half_a_download_loads_nothing(behaviour, hub, monkeypatch):
    monkeypatch.setattr("time.sleep", lambda _: None)  # the library tries again, and waits before
    save_file(small_state()[1], hub.repository / "model.safetensors")
    hub.behaviour = behaviour
    with pytest.raises(vit.CheckpointError, match=ID):
        vit.load_pretrained(ID)
    hub.behaviour = ""
    assert vit.load_pretrained(ID)  # and nothing half stays behind


@pytest.mark.parametrize("read", [EXTRACT, LOAD])
def test_what_is_not_there_is_an_error_that_says_so(read, hub):
    with pytest.raises(vit.CheckpointError, match=r"no model\.safetensors"):
        read(ID)
    with pytest.raises(vit.CheckpointError, match="owner/absent"):
        read("owner/absent")
    with pytest.raises(vit.CheckpointError, match=r"other\.safetensors"):
        read(ID, filename="other.safetensors")
    with pytest.raises(vit.CheckpointError):
        vit.extract_pos_embedding(ID, filename="pytorch_model.bin")


@pytest.mark.parametrize("read", [EXTRACT, LOAD])
def test_a_server_that_is_not_there_is_an_error(read, hub, monkeypatch):
    constants = pytest.importorskip("huggingface_hub.constants")
    monkeypatch.setattr("time.sleep", lambda _: None)  # before it tries again
    nowhere = "http://127.0.0.1:9"
    monkeypatch.setattr(constants, "ENDPOINT", nowhere)
    template = nowhere + "/{repo_id}/resolve/{revision}/{filename}"
    monkeypatch.setattr(constants, "HUGGINGFACE_CO_URL_TEMPLATE", template)
    with pytest.raises(vit.CheckpointError, match=ID):
        read(ID)


@pytest.mark.parametrize("file", ["../../secret.safetensors", "/etc/x.safetensors", "x.bin"])
@pytest.mark.parametrize("read", [EXTRACT, LOAD])
def test_an_index_cannot_lead_out_of_the_repository(read, file, hub):
    index = {"weight_map": dict.fromkeys(small_state()[1], file)}
    (hub.repository / "model.safetensors.index.json").write_text(json.dumps(index))
    with pytest.raises(vit.CheckpointError, match="beside"):
        read(ID)
    assert not any("secret" in path or "etc" in path for _, path, _, _ in hub.asked)


def entry(first, last, shape=(1, 17, 16), dtype="F32"):
    return {"dtype": dtype, "shape": shape, "data_offsets": [first, last]}


SIZE = 4 * 17 * 16


@pytest.mark.parametrize(
    "table",
    [
        entry(0, SIZE - 1),
        entry(0, SIZE + 4),
        entry(-SIZE, 0),
        entry(SIZE, 0),
        entry(10**9, 10**9 + SIZE),
        entry(0, 4 * 10**12, (1, 10**6 + 1, 10**6)),
        entry(0, SIZE, (1, -17, -16)),
        entry(0, SIZE, (1, 2**70, 4)),
        entry(0, SIZE, (1, 2**40, 2**40)),
        entry(0, SIZE, (1.0, 17.0, 16.0)),
        entry(0.0, float(SIZE)),
        entry("0", "1088"),
        entry(0, SIZE, dtype="I32"),
        entry(0, SIZE, dtype=["F32"]),
        entry(0, 0, (1, 17, 0)),
        {"dtype": "F32"},
        [],
        None,
    ],
)
def test_a_remote_header_that_lies_is_an_error(table, hub):
    header = {"patch_embed.proj.weight": entry(0, 4, (1, 1, 1, 1)), "pos_embed": table}
    head = json.dumps(header).encode()
    data = struct.pack("<Q", len(head)) + head + bytes(2 * SIZE)
    (hub.repository / "model.safetensors").write_bytes(data)
    with pytest.raises(vit.CheckpointError):
        vit.extract_pos_embedding(ID)
    assert hub.sent < 10_000


def test_a_table_larger_than_any_is_not_fetched(hub):
    shapes = {"patch_embed.proj.weight": (1024, 3, 1, 1), "pos_embed": (1, 300**2, 1024)}
    write_sparse(hub.repository / "model.safetensors", shapes)
    with pytest.raises(vit.CheckpointError, match="has 368,640,000 bytes"):
        vit.extract_pos_embedding(ID)
    assert hub.sent <= 64 << 10


@pytest.mark.parametrize(
    "content",
    [
        b"",
        b"1234",
        struct.pack("<Q", 2**63) + b"{}",
        struct.pack("<Q", 100) + b"{}",
        struct.pack("<Q", 2) + b"[]",
        struct.pack("<Q", 2) + b"{}",
        struct.pack("<Q", 2) + b"\xff\xff",
        struct.pack("<Q", 50_000) + b"[" * 50_000,
        struct.pack("<Q", 20 << 20) + bytes(20 << 20),
    ],
)
def test_a_file_that_is_not_safetensors_is_an_error(content, hub):
    (hub.repository / "model.safetensors").write_bytes(content)
    with pytest.raises(vit.CheckpointError, match=ID):
        vit.extract_pos_embedding(ID)
    assert hub.sent <= 64 << 10


def test_hf_endpoint_is_obeyed_in_a_fresh_process(hub, tmp_path):
    table = torch.randn(1, 197, 768)
    write_sparse(hub.repository / "model.safetensors", vit_b16(), **{TABLE: table})
    torch.save(table, tmp_path / "table.pt")
    code = f"""
import torch, dnnl.models.vit as vit
found = vit.extract_pos_embedding({ID!r})
print(torch.equal(found.table, torch.load({str(tmp_path / "table.pt")!r})), found[1:])
"""
    done = subprocess.run(
        [sys.executable, "-W", "ignore", "-c", code],
        env={**os.environ, "HF_ENDPOINT": hub.url, "HF_HOME": str(tmp_path / "home")},
        capture_output=True,
        text=True,
        cwd=PROJECT,
    )
    assert done.stdout.strip() == "True ((14, 14), 1)", done.stderr
    assert 0 < hub.sent < 700_000


@pytest.mark.parametrize("grown", [0, 8])
def test_a_file_that_changes_between_two_requests_is_an_error(grown, hub):
    save_file(small_state()[1], hub.repository / "model.safetensors")
    hub.behaviour, hub.grown = "pushed", grown
    with pytest.raises(vit.CheckpointError, match="changed while it was read"):
        vit.extract_pos_embedding(ID)


def test_an_error_page_without_end_is_left(hub):
    hub.behaviour = "endless error"
    with pytest.raises(vit.CheckpointError, match=ID):
        vit.extract_pos_embedding(ID)
    assert hub.sent < 20_000_000


def test_a_server_that_sends_a_byte_at_a_time_is_given_up(hub, monkeypatch):
    write_sparse(hub.repository / "model.safetensors", vit_b16())
    hub.behaviour = "slow"
    module = sys.modules["dnnl.models.vit.pretrained.hub"]
    monkeypatch.setattr(module, "_SECONDS", 0.2)
    monkeypatch.setattr(module, "_BYTES_PER_SECOND", 1e9)
    with pytest.raises(vit.CheckpointError, match="too slow"):
        vit.extract_pos_embedding(ID)


@pytest.mark.parametrize("read", [EXTRACT, LOAD])
def test_a_token_out_of_a_file_loses_its_newline_and_never_shows(read, hub):
    save_file(small_state()[1], hub.repository / "model.safetensors")
    assert read(ID, token="hf_secret\n")
    assert {told for _, _, _, told in hub.asked} == {"Bearer hf_secret"}
    for token in ("hf_se\ncret", "hf_s\u00e9cret", " ", "hf se"):
        with pytest.raises(vit.CheckpointError) as error:
            read(ID, token=token)
        assert "cret" not in str(error.value) and "token" in str(error.value)


def repositories(hub):
    """Fill the hub with a repository of every kind, and return how each is read."""
    _, state = small_state()
    config = json.dumps({"architecture": "vit_x", "model_args": {"num_heads": 1}})
    names = {
        "owner/plain": ["model.safetensors", "config.json"],
        "owner/bare": ["model.safetensors"],
        "owner/sharded": ["a.safetensors", "b.safetensors", "config.json"],
        "owner/bin": ["pytorch_model.bin", "config.json"],
        "owner/named": ["ema.safetensors", "config.json"],
        "owner/named-bare": ["ema.safetensors"],
    }
    for repository, files in names.items():
        folder = hub.folder / repository
        folder.mkdir(parents=True)
        for file in files:
            if file == "config.json":
                (folder / file).write_text(config)
            elif file.endswith(".bin"):
                torch.save(state, folder / file)
            elif file[0] in "ab":
                half = dict(sorted(state.items())[file[0] == "b" :: 2])
                save_file(half, folder / file)
                index = folder / "model.safetensors.index.json"
                known = json.loads(index.read_text())["weight_map"] if index.exists() else {}
                index.write_text(json.dumps({"weight_map": known | dict.fromkeys(half, file)}))
            else:
                save_file(state, folder / file)
    named = {"filename": "ema.safetensors"}
    return state, {name: named if "named" in name else {} for name in names}


@pytest.mark.parametrize("away", ["offline mode", "no connection"])
@pytest.mark.parametrize("marks", [False, True], ids=["without marks", "with .no_exist"])
def test_offline_everything_is_read_that_is_in_the_cache(away, marks, hub, monkeypatch):
    state, sources = repositories(hub)
    hub.commit_on_errors = marks
    online = {name: vit.load_pretrained(name, **how) for name, how in sources.items()}
    monkeypatch.setattr("time.sleep", lambda _: None)  # before the library tries again
    constants = pytest.importorskip("huggingface_hub.constants")
    if away == "offline mode":
        monkeypatch.setattr(constants, "HF_HUB_OFFLINE", True)
    else:
        template = "http://127.0.0.1:9/{repo_id}/resolve/{revision}/{filename}"
        monkeypatch.setattr(constants, "ENDPOINT", "http://127.0.0.1:9")
        monkeypatch.setattr(constants, "HUGGINGFACE_CO_URL_TEMPLATE", template)
    asked = len(hub.asked)
    for name, how in sources.items():
        for key, value in vit.load_pretrained(name, **how).state_dict().items():
            assert torch.equal(value, online[name].state_dict()[key])
        assert torch.equal(vit.extract_pos_embedding(name, **how).table, state["pos_embed"])
    for read in (EXTRACT, LOAD):
        with pytest.raises(vit.CheckpointError, match="owner/never"):
            read("owner/never")
    assert len(hub.asked) == asked


def test_a_connection_that_breaks_between_weights_and_configuration_is_an_error(hub, monkeypatch):
    save_file(small_state()[1], hub.repository / "model.safetensors")
    (hub.repository / "config.json").write_text("{}")
    hub.behaviour = "no config"
    monkeypatch.setattr("time.sleep", lambda _: None)
    with pytest.raises(vit.CheckpointError, match=ID):
        vit.load_pretrained(ID)


def test_a_configuration_that_may_exist_is_logged_when_the_hub_is_away(hub, monkeypatch, caplog):
    save_file(small_state()[1], hub.repository / "model.safetensors")
    vit.load_pretrained(ID)
    constants = pytest.importorskip("huggingface_hub.constants")
    monkeypatch.setattr(constants, "HF_HUB_OFFLINE", True)
    vit.load_pretrained(ID)
    assert "config.json is not in the local cache" in caplog.text


def test_a_model_of_ours_gives_its_table_out_of_the_hub(hub):
    model = vit.ViTModel(16, 4, 3, 16, 4, 1, 32)
    model.save_pretrained(hub.repository)
    found = vit.extract_pos_embedding(ID)
    assert torch.equal(found.table, model.embedding.pos_embed.pos_embed)
    assert hub.sent < 100_000 and found.grid_size == (4, 4)


def test_an_explicit_hub_prefix_means_the_hub(hub, tmp_path, monkeypatch):
    save_file(small_state()[1], hub.repository / "model.safetensors")
    (tmp_path / ID).mkdir(parents=True)
    monkeypatch.chdir(tmp_path)
    for source in ("hf-hub:" + ID, f"hf-hub:{ID}@v1"):
        assert vit.load_pretrained(source)
    with pytest.raises(vit.CheckpointError, match=r"contains no model\.safetensors"):
        vit.load_pretrained(ID)  # the folder of that name
    with pytest.raises(vit.CheckpointError, match="owner/name"):
        vit.load_pretrained("hf-hub:" + "a/b/c")


def test_a_table_in_the_cache_is_not_asked_for(hub):
    save_file(small_state()[1], hub.repository / "model.safetensors")
    model, asked = vit.load_pretrained(ID), len(hub.asked)
    table = vit.extract_pos_embedding("hf-hub:" + ID).table
    assert torch.equal(table, model.backbone.embedding.pos_embed.pos_embed)
    assert len(hub.asked) == asked


@pytest.mark.parametrize("name", ["README.md", "README.zh.md"])
def test_the_lines_of_the_readme_do_what_they_say(name, hub, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    transformers = peer("transformers")
    config = transformers.ViTConfig(
        hidden_size=64,
        num_hidden_layers=1,
        num_attention_heads=1,
        intermediate_size=96,
        id2label={0: "cat", 1: "cup"},
    )
    model = transformers.ViTForImageClassification(config).eval()
    for repository in ("google/vit-base-patch16-224", "google/vit-base-patch16-224-in21k"):
        model.save_pretrained(hub.folder / repository)
        transformers.ViTImageProcessor().save_pretrained(hub.folder / repository)
    text = (PROJECT / name).read_text(encoding="utf-8")
    names = {}
    for block in re.findall(r"```python\n(.*?)```", text, re.DOTALL):
        exec(block, names)
    assert names["z"].shape == (2, 197, 768) and names["maps"][11].shape == (2, 12, 197, 197)
    image, small = torch.rand(1, 3, 384, 384), torch.rand(1, 3, 224, 224)
    with torch.no_grad():
        want = model(image, interpolate_pos_encoding=True).logits
        torch.testing.assert_close(names["larger"](image), want, rtol=0, atol=1e-4)
        want = model(small).logits
        for kept in (names["model"], names["fast"], vit.load_pretrained("my-vit")):
            torch.testing.assert_close(kept(small), want, rtol=0, atol=1e-4)
    assert names["model"].labels == ("cat", "cup") and names["logits"].shape == (1, 2)
    theirs = model.vit.embeddings.position_embeddings.detach()
    want = vit.interpolate_pos_embedding(theirs, 14, 24)
    assert torch.equal(names["table"], want) and names["table"].shape == (1, 577, 64)


def test_the_cell_of_the_page_draws_a_real_table(hub):
    plt = pytest.importorskip("matplotlib.pyplot")
    figures = pytest.importorskip("dnnl.figures")
    plt.switch_backend("agg")
    page = json.loads((PROJECT / "chapters/en/07_two_dimensions.ipynb").read_text(encoding="utf-8"))
    (source,) = [
        "".join(c["source"]) for c in page["cells"] if "google/vit" in "".join(c["source"])
    ]
    (hub.folder / "google" / "vit-base-patch16-224-in21k").mkdir(parents=True)
    weights = hub.folder / "google" / "vit-base-patch16-224-in21k" / "model.safetensors"
    write_sparse(weights, vit_b16(), **{TABLE: torch.randn(1, 197, 768)})
    plt.close("all")
    exec(source, {"vit": vit, "figures": figures, "plt": plt})
    (figure,) = map(plt.figure, plt.get_fignums())
    assert sum(len(axes.images) for axes in figure.axes) == 49
    plt.close(figure)
    assert hub.sent < 197 * 768 * 4 + 70_000
