"""Everything a user chooses, frozen and checked: one value that a ledger is computed from."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, fields
from fractions import Fraction
from functools import cached_property
from math import prod
from typing import Any, NamedTuple

from memmodel import configs, devices
from memmodel.architecture import Architecture
from memmodel.formats import OPTIMIZERS, RECIPES, Recipe, StateBytes, recipe
from memmodel.graph import Block, block
from memmodel.mesh import Chunk, Mesh, num_stages, split_layers, stage_map
from memmodel.recompute import POLICIES, Marks, Stash, marks, stash
from memmodel.schedule import SCHEDULES, Kind
from memmodel.schedule import check as check_schedule

# No run comes near either; above them the answer is a typing error or takes minutes.
MOST = 10**12  # of any count, degree or size
MOST_CHUNKS = 128  # of a rank: every moment of the schedule counts the stashes of each
MOST_FORWARDS = 2**20  # of a step, over all ranks: every one is an event of the schedule


def _field(default: Any, unit: str, meaning: str, shown: str | None = None) -> Any:
    """A field with what `--help` says of it; `shown` puts a default into words."""
    words = str(default) if shown is None else shown
    return field(default=default, metadata={"unit": unit, "meaning": meaning, "shown": words})


@dataclass(frozen=True)
class Plan:
    """A training run: model, mesh, schedule, precision, recompute, device.

    Raises ValueError that names field, value and what would be valid.

    >>> Plan().mesh.dp, Plan().mesh.edp
    (256, 4)
    """

    model: str = _field("deepseek-v3", "name or path", "zoo name, or path of a config.json")
    gpus: int = _field(2048, "GPUs", "world size")
    tp: int = _field(1, "degree", "tensor parallelism, with sequence parallelism")
    cp: int = _field(1, "degree", "context parallelism")
    pp: int = _field(8, "degree", "pipeline parallelism")
    ep: int = _field(64, "degree", "expert parallelism")
    etp: int = _field(1, "degree", "expert tensor parallelism")
    zero: int = _field(1, "stage", "ZeRO: 1 shards the optimizer, 2 gradients too, 3 weights too")
    schedule: str = _field("dualpipev", "name", f"pipeline schedule: {', '.join(SCHEDULES)}")
    virtual_stages: int | None = _field(
        None, "chunks", "chunks per rank, for interleaved", "2 for V schedules, else 1"
    )
    microbatches: int | None = _field(
        None, "microbatches", "microbatches per step and rank", "4 * pp"
    )
    seq_len: int = _field(4096, "tokens", "tokens per sequence")
    microbatch_size: int = _field(1, "sequences", "sequences per microbatch")
    recipe: str = _field("dsv3-fp8", "name", f"precision recipe: {', '.join(RECIPES)}")
    formats: tuple[tuple[str, str], ...] = _field(
        (), "JSON object", "formats of single sites, over the recipe's", "none"
    )
    recompute: str = _field("dsv3", "name", f"recompute policy: {', '.join(POLICIES)}")
    replay: tuple[str, ...] = _field((), "ops", "replayed whatever the policy says", "none")
    save: tuple[str, ...] = _field((), "ops", "saved whatever the policy says", "none")
    optimizer: str = _field(
        "bf16-moments", "name", "weight + gradient + optimizer bytes per parameter"
    )
    dual_stash: bool = _field(False, "switch", "keep e4m3 GEMM inputs in both orientations", "off")
    fp8_params: bool = _field(False, "switch", "fp8-resident block weights: 2.0625 B each", "off")
    device: str = _field("h100", "name", f"GPU: {', '.join(devices.DEVICES)}")
    reserve_gib: float = _field(0, "GiB", "set aside for context, communication, fragmentation")

    def __post_init__(self) -> None:
        # Fields may come from a user's JSON: normalise, and check all.
        object.__setattr__(self, "formats", pairs("formats", self.formats))
        for name in ("replay", "save"):
            object.__setattr__(self, name, names(name, getattr(self, name)))
        for name, least, most in (
            ("gpus", 1, MOST),
            ("tp", 1, MOST),
            ("cp", 1, MOST),
            ("pp", 1, MOST),
            ("ep", 1, MOST),
            ("etp", 1, MOST),
            ("zero", 0, 3),
            ("seq_len", 1, MOST),
            ("microbatch_size", 1, MOST),
        ):
            check_integer(name, getattr(self, name), least, most)
        for name in ("virtual_stages", "microbatches"):
            if getattr(self, name) is not None:
                check_integer(name, getattr(self, name), 1, MOST)
        for name in ("model", "schedule", "recipe", "recompute", "optimizer", "device"):
            if not isinstance(getattr(self, name), str):
                raise ValueError(f"{name} = {getattr(self, name)!r}, but a name is needed")
        for name in ("dual_stash", "fp8_params"):
            if not isinstance(getattr(self, name), bool):
                raise ValueError(f"{name} = {getattr(self, name)!r}, but true or false is needed")
        _check_reserve(self.reserve_gib)
        if self.reserve_gib == int(self.reserve_gib):
            object.__setattr__(self, "reserve_gib", int(self.reserve_gib))
        if self.optimizer not in OPTIMIZERS:
            raise ValueError(f"optimizer {self.optimizer!r}: known are {', '.join(OPTIMIZERS)}")
        devices.device(self.device)
        self.mesh.check(self.architecture, self.seq_len)
        _ = self.recipe_formats, self.marks, self.chunks_of_rank
        if self.pp > 1:
            size = {
                "pp": self.pp,
                "microbatches": self.num_microbatches,
                "virtual_stages": self.num_virtual_stages,
            }
            check_schedule(self.schedule, **size)
            check_forwards(**size)

    @classmethod
    def from_dict(cls, values: Mapping[str, object]) -> Plan:
        """A plan from JSON values; a field that is absent keeps its default.

        Raises ValueError for unknown fields and for null where no default is derived.
        """
        known = {item.name: item for item in fields(cls)}
        for name, value in values.items():
            if name not in known:
                raise ValueError(f"no field {name!r} in a plan, known are {', '.join(known)}")
            if value is None and known[name].default is not None:
                raise ValueError(f"{name} = null, but a value is needed")
        chosen: dict[str, Any] = dict(values)
        return cls(**chosen)

    @cached_property
    def architecture(self) -> Architecture:
        return configs.load(self.model)

    @cached_property
    def mesh(self) -> Mesh:
        return Mesh(
            gpus=self.gpus,
            tp=self.tp,
            cp=self.cp,
            pp=self.pp,
            ep=self.ep,
            etp=self.etp,
            zero=self.zero,
        )

    @cached_property
    def recipe_formats(self) -> Recipe:
        return recipe(self.recipe, dict(self.formats))

    @property
    def state_bytes(self) -> StateBytes:
        return OPTIMIZERS[self.optimizer]

    @property
    def num_microbatches(self) -> int:
        return 4 * self.pp if self.microbatches is None else self.microbatches

    @cached_property
    def schedule_kind(self) -> Kind:
        if self.schedule not in SCHEDULES:
            known = ", ".join(SCHEDULES)
            raise ValueError(f"schedule {self.schedule!r}: known are {known}")
        return SCHEDULES[self.schedule]

    @property
    def num_virtual_stages(self) -> int:
        if self.virtual_stages is None:
            return self.schedule_kind.default_virtual_stages
        return self.virtual_stages

    @property
    def copies(self) -> int:
        """How often each stage exists in a pipeline: twice under a bidirectional schedule."""
        return 2 if self.pp > 1 and self.schedule_kind.placement == "bidirectional" else 1

    @cached_property
    def chunks_of_rank(self) -> tuple[tuple[Chunk, ...], ...]:
        """The chunks of each pipeline rank, in the order in which the schedule numbers them."""
        kind = self.schedule_kind
        placement = "linear" if self.pp == 1 else kind.placement
        size = (placement, self.pp, self.num_virtual_stages)
        split = split_layers(self.architecture.num_hidden_layers, num_stages(*size))
        return tuple(tuple(split[stage] for stage in rank) for rank in stage_map(*size))

    @cached_property
    def blocks(self) -> dict[str, Block]:
        return {kind: block(self.architecture, kind) for kind in self.architecture.kinds}

    @cached_property
    def marks(self) -> dict[str, Marks]:
        return marks(self.blocks.values(), self.recompute, replay=self.replay, save=self.save)

    @cached_property
    def stashes(self) -> dict[str, Stash]:
        """What one token leaves in one block of each kind."""
        return {
            kind: stash(self.blocks[kind], self.recipe_formats, self.marks[kind], self.dual_stash)
            for kind in self.blocks
        }

    def resolved(self) -> dict[str, object]:
        """Every field with its value, derived defaults included, as JSON values."""
        values: dict[str, object] = {item.name: getattr(self, item.name) for item in fields(self)}
        return values | {
            "virtual_stages": self.num_virtual_stages,
            "microbatches": self.num_microbatches,
            "formats": dict(self.formats),
            "replay": list(self.replay),
            "save": list(self.save),
        }


class FieldHelp(NamedTuple):
    """What `--help` says of a field."""

    name: str
    default: Any
    unit: str
    meaning: str
    shown: str  # the default in words


def field_help() -> tuple[FieldHelp, ...]:
    """All fields, in order."""
    return tuple(FieldHelp(item.name, item.default, **item.metadata) for item in fields(Plan))


def check_integer(name: str, value: object, least: int, most: int | None = None) -> int:
    """The value. Raises ValueError unless it is a whole number between `least` and `most`."""
    limits = f">= {least}" if most is None else f"from {least} to {most}"
    if isinstance(value, bool) or not isinstance(value, int):
        raise ValueError(f"{name} = {value!r}, but a whole number {limits} is needed")
    if value < least or (most is not None and value > most):
        raise ValueError(f"{name} = {value}, but a whole number {limits} is needed")
    return value


def check_forwards(most: int = MOST_FORWARDS, **size: int) -> None:
    """Raise ValueError where a step has more forwards (of a chunk) than can be put in order."""
    check_integer("virtual_stages", size["virtual_stages"], 1, MOST_CHUNKS)
    forwards = prod(size.values())
    if forwards > most:
        terms = " * ".join(f"{name} = {value}" for name, value in size.items())
        raise ValueError(f"{terms}: {forwards} forwards, but at most {most} are put in order")


def _check_reserve(value: object) -> None:
    if isinstance(value, bool) or not isinstance(value, int | float) or not 0 <= value <= MOST:
        raise ValueError(f"reserve_gib = {value!r}, but a number from 0 to {MOST} is needed")


def pairs(name: str, value: object) -> tuple[tuple[str, str], ...]:
    """A mapping of site to format as sorted pairs. Raises ValueError for anything else."""
    found = tuple(value.items()) if isinstance(value, Mapping) else value
    if not isinstance(found, tuple) or not all(
        isinstance(pair, tuple) and len(pair) == 2 and all(isinstance(text, str) for text in pair)
        for pair in found
    ):
        raise ValueError(f"{name} = {value!r}, but an object of site: format is needed")
    return tuple(sorted(dict(found).items()))


def names(name: str, value: object) -> tuple[str, ...]:
    """A list of op names as a tuple. Raises ValueError for anything else."""
    if not isinstance(value, list | tuple) or not all(isinstance(item, str) for item in value):
        raise ValueError(f"{name} = {value!r}, but a list of op names is needed")
    return tuple(value)


def as_written(value: float) -> Fraction:
    """The decimal number that a user wrote, exactly.

    >>> as_written(0.1)
    Fraction(1, 10)
    """
    return Fraction(str(value))
