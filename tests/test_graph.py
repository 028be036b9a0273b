"""The graph of a block against a second table of its operations, row by row."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from bruteforce import Shape, table

from memmodel.architecture import Architecture
from memmodel.configs import from_config, load
from memmodel.graph import block

REFERENCE = json.loads((Path(__file__).parent / "goldens" / "reference.json").read_text())
DSV3 = load("deepseek-v3")
KIMI_K2 = REFERENCE["parameters_of_models"]["kimi-k2"]["config"]
TWO_SHARED = Shape(
    hidden=64,
    heads=3,
    nope=10,
    rope=6,
    v=9,
    q_lora=70,
    kv_lora=33,
    dense_width=100,
    expert_width=45,
    experts=7,
    top=3,
    shared=2,
)
MODELS: dict[str, tuple[Architecture, Shape]] = {
    "deepseek-v3": (DSV3, Shape()),
    "kimi-k2": (from_config("kimi-k2", KIMI_K2), Shape(heads=64, experts=384)),
    "no shared expert": (from_config("x", Shape(shared=0).config()), Shape(shared=0)),
    "two shared experts": (from_config("y", TWO_SHARED.config()), TWO_SHARED),
}


@pytest.mark.parametrize("kind", ["moe", "dense"])
@pytest.mark.parametrize("model", MODELS)
def test_every_op_is_the_row_of_the_table(model: str, kind: str) -> None:
    arch, shape = MODELS[model]
    graph, rows = block(arch, kind), table(kind, shape)
    assert [op.name for op in graph.ops] == [row.name for row in rows]
    for op, row in zip(graph.ops, rows, strict=True):
        assert set(op.inputs) == set(row.inputs), op.name
        assert set(op.reads) == set(row.reads), op.name
        assert op.stored == row.stored, op.name
        assert op.kind == (row.kind if op.name != "swiglu" else "swiglu"), op.name
        assert (op.aux and (op.aux[0], 4 * op.aux[1])) == row.aux, op.name
        assert op.forward_flops(4096) == row.flops + 4096 * row.flops_per_position, op.name
        if op.name != "x2":  # charged to the next block
            assert op.rows == row.out, op.name


# The output elements of each operation, in the arithmetic of DeepSeek-V3's dimensions.
ELEMENTS = {
    "x0": 7168,
    "norm1": 7168,
    "qkv_down": 1536 + 512,
    "q_norm": 1536,
    "kv_norm": 512,
    "q_up": 128 * 192,
    "kv_up": 128 * (192 + 128),
    "rope_q": 128 * 192,
    "rope_kv": 128 * (192 + 128),
    "attn": 128 * 128,
    "o_proj": 7168,
    "x1": 7168,
    "norm2": 7168,
}
FFN_ELEMENTS = {
    "moe": {
        "router": 2 * 256 + 4 * 8,
        "dispatch": 8 * 7168,
        "gate_up": (8 + 1) * 2 * 2048,
        "swiglu": (8 + 1) * 2048,
        "ffn_down": 8 * 7168,
        "combine": 7168,
        "moe_add": 7168,
    },
    "dense": {"gate_up": 2 * 18432, "swiglu": 18432, "ffn_down": 7168},
}


@pytest.mark.parametrize("kind", ["moe", "dense"])
def test_output_elements_per_token(kind: str) -> None:
    found = {op.name: op.elements for op in block(DSV3, kind).ops if op.name != "x2"}
    assert found == ELEMENTS | FFN_ELEMENTS[kind]


def test_a_moe_block_takes_1_338667392_gflop() -> None:
    wanted = REFERENCE["block_flops_per_token_seq4096"]["moe"]
    assert sum(op.forward_flops(4096) for op in block(DSV3, "moe").ops) == wanted == 1_338_667_392


def test_flops_of_single_operations() -> None:
    # 2*in*out, the causal average of attention, norms 8, SwiGLU 6, RoPE 6.
    wanted = {
        "norm1": 8 * 7168,
        "qkv_down": 2 * 7168 * (1536 + 576),
        "q_up": 2 * 1536 * 128 * 192,
        "kv_up": 2 * 512 * 128 * 256,
        "rope_q": 6 * 128 * 64,
        "rope_kv": 6 * 64,
        "attn": 2 * 128 * (192 + 128) * 4096 // 2,
        "o_proj": 2 * 128 * 128 * 7168,
        "router": 2 * 7168 * 256,
        "gate_up": 9 * 2 * 7168 * 2 * 2048,
        "swiglu": 6 * 9 * 2048,
        "ffn_down": 9 * 2 * 2048 * 7168,
        "dispatch": 0,
        "combine": 0,
        "x1": 0,
        "moe_add": 0,
        "x0": 0,
        "x2": 0,
    }
    found = block(DSV3, "moe").by_name
    assert {name: found[name].forward_flops(4096) for name in wanted} == wanted


def test_inputs_come_before_the_ops_that_take_them() -> None:
    for arch, _ in MODELS.values():
        for kind in arch.kinds:
            done: set[str] = set()
            for op in block(arch, kind).ops:
                assert set(op.inputs) <= done
                done.add(op.name)
                assert set(op.reads) <= done  # an op's backward reads nothing from after it


def test_marks_belong_to_all_ops_but_the_ends() -> None:
    for kind, marks in (("moe", 19), ("dense", 15)):
        graph = block(DSV3, kind)
        assert len(graph.markable) == marks  # 2^19 policies of a MoE block
        assert not {"x0", "x2"} & set(graph.markable)


def test_a_kind_that_the_model_does_not_have_is_refused() -> None:
    with pytest.raises(ValueError, match="kind 'mo': deepseek-v3 has dense and moe blocks"):
        block(DSV3, "mo")
    only_moe = from_config("z", Shape().config(dense_layers=0))
    with pytest.raises(ValueError, match="kind 'dense': z has moe blocks"):
        block(only_moe, "dense")
