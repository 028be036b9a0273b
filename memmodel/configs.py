"""Reads Hugging Face style configs into architectures, strictly: nothing falls back in silence.

`zoo/*.json` are such configs and go through the same reader as a user's file.
"""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Mapping
from functools import lru_cache
from pathlib import Path

from memmodel.architecture import Architecture
from memmodel.inputs import parse_json_object, read_text

ZOO = Path(__file__).parent / "zoo"

# No published model comes near either.
MOST = 10**9  # of any dimension
MOST_LAYERS = 10**4


class _Config:
    """A config with checked look-ups; `notes` gathers what was assumed."""

    def __init__(self, source: str, values: Mapping[str, object]) -> None:
        self.source, self.values = source, values
        self.notes: list[str] = []

    def _value(self, name: str, default: object) -> object:
        """The value of a field; with a default it may be absent or null, and that is noted."""
        value = self.values.get(name)
        if value is not None:
            return value
        state = "null" if name in self.values else "absent"
        if default is None:
            raise ValueError(f"{self.source}: {name} is {state}, but a value is needed")
        self.notes.append(f"{name} is {state}: {json.dumps(default)} assumed")
        return default

    def integer(self, name: str, least: int, default: int | None = None, most: int = MOST) -> int:
        """A whole number from `least` to `most`."""
        value = self._value(name, default)
        if isinstance(value, bool) or not isinstance(value, int) or not least <= value <= most:
            raise ValueError(
                f"{self.source}: {name} = {value!r}, but a whole number from {least} to {most} "
                "is needed"
            )
        return value

    def switch(self, name: str, default: bool) -> bool:
        value = self._value(name, default)
        if not isinstance(value, bool):
            raise ValueError(f"{self.source}: {name} = {value!r}, but true or false is needed")
        return value


def _deepseek_v3(name: str, config: _Config) -> Architecture:
    """Transformers' DeepseekV3Config; what its fields mean is in the V3 report, 2.1."""
    if config.values.get("q_lora_rank", 0) is None:
        raise ValueError(
            f"{config.source}: q_lora_rank = null (a full-rank query projection) is not accounted "
            "yet; a whole number is needed"
        )
    if config.switch("tie_word_embeddings", default=False):
        raise ValueError(
            f"{config.source}: tie_word_embeddings = true is not accounted yet; false is needed"
        )
    if config.integer("moe_layer_freq", 1, default=1) != 1:
        raise ValueError(f"{config.source}: moe_layer_freq other than 1 is not accounted yet")
    layers = config.integer("num_hidden_layers", 1, most=MOST_LAYERS)
    arch = Architecture(
        name=name,
        model_type="deepseek_v3",
        num_hidden_layers=layers,
        first_k_dense_replace=min(config.integer("first_k_dense_replace", 0), layers),
        hidden_size=config.integer("hidden_size", 1),
        vocab_size=config.integer("vocab_size", 1),
        num_attention_heads=config.integer("num_attention_heads", 1),
        q_lora_rank=config.integer("q_lora_rank", 1),
        kv_lora_rank=config.integer("kv_lora_rank", 1),
        qk_nope_head_dim=config.integer("qk_nope_head_dim", 1),
        qk_rope_head_dim=config.integer("qk_rope_head_dim", 1),
        v_head_dim=config.integer("v_head_dim", 1),
        attention_bias=config.switch("attention_bias", default=False),
        intermediate_size=config.integer("intermediate_size", 1),
        moe_intermediate_size=config.integer("moe_intermediate_size", 1),
        num_experts=config.integer("n_routed_experts", 1),
        num_experts_per_tok=config.integer("num_experts_per_tok", 1),
        num_shared_experts=config.integer("n_shared_experts", 0, default=0),
        num_mtp_layers=config.integer("num_nextn_predict_layers", 0, default=0),
        notes=tuple(config.notes),
    )
    if arch.num_experts_per_tok > arch.num_experts:
        raise ValueError(
            f"{config.source}: num_experts_per_tok = {arch.num_experts_per_tok}, but there are "
            f"only {arch.num_experts} routed experts"
        )
    return arch


READERS: dict[str, Callable[[str, _Config], Architecture]] = {"deepseek_v3": _deepseek_v3}


def from_config(name: str, values: Mapping[str, object]) -> Architecture:
    """The architecture that a Hugging Face style config describes.

    Raises ValueError for an unknown model_type (it lists the known ones) and for missing or
    impossible fields.
    """
    model_type = values.get("model_type")
    if not isinstance(model_type, str) or model_type not in READERS:
        raise ValueError(f"{name}: model_type {model_type!r}: known are {', '.join(READERS)}")
    return READERS[model_type](name, _Config(name, values))


def zoo_names() -> tuple[str, ...]:
    """The models whose configs come with the package."""
    return tuple(sorted(path.stem for path in ZOO.glob("*.json")))


@lru_cache(maxsize=64)
def load(model: str) -> Architecture:
    """The architecture of a zoo name, or of the config.json at a path (read once per process).

    >>> load("deepseek-v3").parameters()
    671026419200

    Raises ValueError that lists the zoo where `model` is neither.
    """
    path = ZOO / f"{model}.json"
    if model not in zoo_names():
        path = Path(model)
        if not os.path.isfile(model):  # noqa: PTH113 (Path.is_file raises for names too long)
            raise ValueError(
                f"model {model!r}: neither a config.json nor one of {', '.join(zoo_names())}"
            )
    return from_config(model, parse_json_object(read_text(path, model), model))
