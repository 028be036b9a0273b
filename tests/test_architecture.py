"""Every parameter of published models, and the reader of their configs."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from bruteforce import Shape

from memmodel.architecture import CLASSES, PARTS
from memmodel.configs import from_config, load, zoo_names

# Sources of the stored counts: the published checkpoints (see reference.json).
REFERENCE = json.loads((Path(__file__).parent / "goldens" / "reference.json").read_text())
PUBLISHED = REFERENCE["parameters_of_models"]
DSV3 = load("deepseek-v3")
FAMILY = [name for name, item in PUBLISHED.items() if item["config"]["model_type"] == "deepseek_v3"]


def test_deepseek_v3_totals() -> None:
    wanted = REFERENCE["deepseek_v3_parameters"]
    assert DSV3.parameters() == wanted["total"] == 671_026_419_200
    assert DSV3.active_parameters == wanted["activated_per_token"] == 36_625_618_432
    with_embedding = DSV3.active_parameters + DSV3.parameters("embedding")
    assert with_embedding == wanted["activated_with_input_embedding"]
    assert DSV3.mtp_parameters == wanted["mtp_layer"] == 11_610_068_224
    assert DSV3.parameters("routed_experts") == wanted["routed_experts"]
    assert DSV3.layer_parameters("dense") == wanted["dense_layer"]
    assert DSV3.layer_parameters("moe") == (
        wanted["routed_experts_per_moe_layer"] + wanted["rest_of_moe_layer"]
    )


def test_deepseek_v3_tensor_by_tensor() -> None:
    wanted = REFERENCE["deepseek_v3_parameters"]
    sizes = {tensor.name: tensor.elements for tensor in DSV3.layer_tensors("moe")}
    down = sizes["self_attn.q_a_proj"] + sizes["self_attn.kv_a_proj_with_mqa"]
    assert down == wanted["qkv_down"]
    assert sizes["self_attn.q_b_proj"] == wanted["q_up"]
    assert sizes["self_attn.kv_b_proj"] == wanted["kv_up"]
    assert sizes["self_attn.o_proj"] == wanted["o_proj"]
    router = sizes["mlp.gate"] + sizes["mlp.gate.e_score_correction_bias"]
    assert router == wanted["router"] == 7169 * 256
    shared = sum(size for name, size in sizes.items() if name.startswith("mlp.shared_experts"))
    routed = sum(size for name, size in sizes.items() if name.startswith("mlp.experts"))
    assert shared == wanted["expert"] == 3 * 7168 * 2048
    assert routed == 256 * wanted["expert"] == wanted["routed_experts_per_moe_layer"]
    norms = sum(size for name, size in sizes.items() if "norm" in name)
    assert norms == 2 * 7168 + 1536 + 512 == 16_384
    dense = sum(tensor.elements for tensor in DSV3.layer_tensors("dense") if "mlp" in tensor.name)
    assert dense == 396_361_728
    ends = {tensor.name: tensor.elements for tensor in DSV3.end_tensors()}
    assert ends == {
        "model.embed_tokens": wanted["embedding"],
        "lm_head": wanted["lm_head"],
        "model.norm": wanted["final_norm"],
    }


@pytest.mark.parametrize("name", FAMILY)
def test_published_models_by_class(name: str) -> None:
    assert len(FAMILY) == 2  # DeepSeek-V3 and Kimi-K2: one reader for both
    arch = from_config(name, PUBLISHED[name]["config"])
    counts = PUBLISHED[name]["counts"]
    by_class = counts["by_class"]
    norms = by_class["attention_inner_norms"] + by_class["layer_norms"] + by_class["final_norm"]
    assert {cls: arch.parameters(cls) for cls in CLASSES} == {
        "embedding": by_class["embedding"],
        "attention": by_class["attention"],
        "dense_ffn": by_class["dense_ffn"],
        "router": by_class["router"] + by_class["router_correction_bias"],
        "routed_experts": by_class["routed_experts"],
        "shared_experts": by_class["shared_experts"],
        "norms": norms,
        "lm_head": by_class["lm_head"],
    }
    assert arch.parameters(trainable=True) == counts["total_parameters"]
    assert arch.parameters(trainable=False) == counts["persistent_buffers"]
    assert arch.parameters() == counts["total_incl_persistent_buffers"]
    active = counts["activated_per_token_incl_embedding"] - by_class["embedding"]
    assert arch.active_parameters == active


def test_the_zoo_is_read_like_a_users_file(tmp_path: Path) -> None:
    assert "deepseek-v3" in zoo_names()
    path = tmp_path / "config.json"
    path.write_text(json.dumps(PUBLISHED["deepseek-v3"]["config"]))
    mine = load(str(path))
    assert list(mine.tensors()) == list(DSV3.tensors())
    # It says less than the zoo's: what was assumed is noted.
    assert "num_nextn_predict_layers is absent: 0 assumed" in mine.notes
    assert "attention_bias is absent: false assumed" in mine.notes
    assert (mine.mtp_parameters, DSV3.notes) == (0, ())


def test_parts_and_classes_partition_the_model() -> None:
    for arch in (DSV3, from_config("x", Shape(shared=0).config()), from_config("y", BIASED)):
        assert sum(arch.parameters(cls) for cls in CLASSES) == arch.parameters()
        parts = sum(
            part.elements * arch.num_layers(kind)
            for kind, found in arch.layer_parts.items()
            for part in found
        ) + sum(part.elements for part in arch.end_parts.values())
        assert parts == arch.parameters()
        names = {part.name for found in arch.layer_parts.values() for part in found}
        assert names | set(arch.end_parts) <= set(PARTS)


BIASED: dict[str, object] = Shape().config() | {"attention_bias": True}


def test_attention_biases_count_where_a_config_has_them() -> None:
    # Transformers' DeepseekV3Attention: biases on the two down-projections and on the output.
    plain, biased = from_config("x", Shape().config()), from_config("y", BIASED)
    assert biased.parameters() - plain.parameters() == 61 * (1536 + 576 + 7168)


def test_layers_of_each_kind_in_a_range() -> None:
    assert (DSV3.num_layers("dense"), DSV3.num_layers("moe")) == (3, 58)
    assert (DSV3.num_layers("dense", 2, 5), DSV3.num_layers("moe", 2, 5)) == (1, 2)
    assert (DSV3.num_layers("dense", 7, 7), DSV3.num_layers("moe", 7, 7)) == (0, 0)
    assert (DSV3.num_layers("dense", 0, 2), DSV3.num_layers("moe", 0, 2)) == (2, 0)
    all_dense = from_config("x", Shape().config(dense_layers=61))
    assert all_dense.kinds == ("dense",)
    assert from_config("x", Shape().config(dense_layers=0)).kinds == ("moe",)


# --- bad configs ----------------------------------------------------------------------------------

GOOD = PUBLISHED["deepseek-v3"]["config"]


@pytest.mark.parametrize(
    ("change", "complaint"),
    [
        ({"model_type": "llamas"}, "model_type 'llamas': known are deepseek_v3"),
        ({"model_type": None}, "model_type None: known are"),
        ({"model_type": ["deepseek_v3"]}, "known are deepseek_v3"),
        ({"hidden_size": 0}, "hidden_size = 0, but a whole number from 1"),
        ({"hidden_size": -7168}, "hidden_size = -7168"),
        ({"hidden_size": True}, "hidden_size = True"),
        ({"hidden_size": 7168.0}, "hidden_size = 7168.0"),
        ({"hidden_size": "7168"}, "hidden_size = '7168'"),
        ({"hidden_size": 10**30}, "hidden_size = 1000000000"),
        ({"hidden_size": None}, "hidden_size is null, but a value is needed"),
        ({"num_hidden_layers": [61]}, "num_hidden_layers"),
        ({"num_hidden_layers": 10_001}, "num_hidden_layers = 10001, but a whole number from 1 to"),
        ({"first_k_dense_replace": -1}, "first_k_dense_replace = -1"),
        ({"num_experts_per_tok": 257}, "num_experts_per_tok = 257, but there are only 256"),
        ({"q_lora_rank": None}, "q_lora_rank = null"),
        ({"tie_word_embeddings": True}, "tie_word_embeddings = true is not accounted"),
        ({"tie_word_embeddings": 1}, "tie_word_embeddings = 1, but true or false"),
        ({"moe_layer_freq": 2}, "moe_layer_freq other than 1"),
    ],
)
def test_impossible_configs_are_refused_by_name(change: dict[str, Any], complaint: str) -> None:
    with pytest.raises(ValueError, match=complaint) as caught:
        from_config("mine.json", GOOD | change)
    assert str(caught.value).startswith("mine.json: ")


@pytest.mark.parametrize("missing", ["hidden_size", "vocab_size", "n_routed_experts", "v_head_dim"])
def test_a_missing_dimension_is_named(missing: str) -> None:
    config = {name: value for name, value in GOOD.items() if name != missing}
    with pytest.raises(ValueError, match=f"{missing} is absent, but a value is needed"):
        from_config("mine.json", config)


@pytest.mark.parametrize("model", ["", "deepseek-v4", "..", "x" * 5000, "a\0b", "\ud800", "/"])
def test_a_model_that_is_neither_a_name_nor_a_file(model: str) -> None:
    with pytest.raises(ValueError, match=r"neither a config\.json nor one of deepseek-v3"):
        load(model)
