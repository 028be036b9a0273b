"""Degrees of parallelism: their groups, what each shards, and how layers fall into chunks.

A *stage* is a contiguous run of slots in model order; a *chunk* is a stage seen from the rank that
hosts it (chunk 0, 1, ... of that rank). Embedding and head count as one slot each.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache

from memmodel.architecture import Architecture

PLACEMENTS = ("linear", "interleaved", "v", "bidirectional")


def stage_map(placement: str, pp: int, virtual_stages: int = 1) -> tuple[tuple[int, ...], ...]:
    """The stages that each rank hosts, chunk by chunk.

    linear: rank r hosts stage r. interleaved: stage c on rank c mod pp. v: 2*pp stages, the second
    half on the way back up. bidirectional: rank r hosts stages r and pp-1-r, each stage twice.

    >>> stage_map("v", 2)
    ((0, 3), (1, 2))
    >>> stage_map("interleaved", 2, 2)
    ((0, 2), (1, 3))
    >>> stage_map("bidirectional", 2)
    ((0, 1), (1, 0))
    """
    ranks = range(pp)
    if placement == "linear":
        return tuple((r,) for r in ranks)
    if placement == "interleaved":
        return tuple(tuple(r + v * pp for v in range(virtual_stages)) for r in ranks)
    if placement == "v":
        return tuple((r, 2 * pp - 1 - r) for r in ranks)
    if placement == "bidirectional":
        return tuple((r, pp - 1 - r) for r in ranks)
    raise ValueError(f"placement {placement!r}: known are {', '.join(PLACEMENTS)}")


def num_stages(placement: str, pp: int, virtual_stages: int = 1) -> int:
    """Into how many stages a placement cuts the model.

    >>> [num_stages(placement, 8, 3) for placement in PLACEMENTS]
    [8, 24, 16, 8]
    """
    return pp * {"interleaved": virtual_stages, "v": 2}.get(placement, 1)


@dataclass(frozen=True)
class Chunk:
    """Layers `first` to `stop - 1`, and whether the embedding or the head rides along."""

    first: int
    stop: int
    embedding: bool = False
    head: bool = False

    @property
    def num_layers(self) -> int:
        return self.stop - self.first


@lru_cache(maxsize=256)
def split_layers(num_layers: int, num_stages: int) -> tuple[Chunk, ...]:
    """Cut layers + 2 slots (embedding first, head last) into stages, the remainder to the front.

    >>> [chunk.num_layers for chunk in split_layers(61, 16)][:2], split_layers(61, 16)[15]
    ([3, 4], Chunk(first=59, stop=61, embedding=False, head=True))

    Raises ValueError where a stage would stay empty.
    """
    slots = num_layers + 2
    if num_stages > slots:
        raise ValueError(
            f"pp: the schedule cuts the model into {num_stages} chunks, but {num_layers} layers, "
            f"embedding and head are only {slots} slots"
        )
    size, remainder = divmod(slots, num_stages)
    chunks, start = [], 0
    for stage in range(num_stages):
        stop = start + size + (stage < remainder)
        chunks.append(
            Chunk(
                first=max(start - 1, 0),
                stop=min(stop - 1, num_layers),
                embedding=start == 0,
                head=stop == slots,
            )
        )
        start = stop
    return tuple(chunks)


@dataclass(frozen=True)
class Mesh:
    """Degrees of parallelism of `gpus` GPUs. Construction checks nothing; `check` does."""

    gpus: int
    tp: int
    cp: int
    pp: int
    ep: int
    etp: int
    zero: int

    @property
    def dp(self) -> int:
        """Data parallel degree; with CP, DP * CP GPUs hold the same but for routed experts."""
        return self.gpus // (self.tp * self.cp * self.pp)

    @property
    def edp(self) -> int:
        """Expert data parallel degree: replicas of each routed expert."""
        return self.gpus // (self.pp * self.ep * self.etp)

    def check(self, arch: Architecture, seq_len: int) -> None:
        """Raise ValueError that names the first rule, in the order below, that is broken."""
        tp = f"tp = {self.tp}"
        rules: list[tuple[str, int, str, int]] = [
            (
                "gpus",
                self.gpus,
                f"tp*cp*pp = {self.tp}*{self.cp}*{self.pp}",
                self.tp * self.cp * self.pp,
            ),
            *((name, width, tp, self.tp) for name, width in arch.tp_widths()),
        ]
        if arch.num_experts:
            rules += [
                ("the number of routed experts", arch.num_experts, f"ep = {self.ep}", self.ep),
                (
                    "moe_intermediate_size",
                    arch.moe_intermediate_size,
                    f"etp = {self.etp}",
                    self.etp,
                ),
                (
                    "gpus/pp",
                    self.gpus // self.pp,
                    f"ep*etp = {self.ep}*{self.etp}",
                    self.ep * self.etp,
                ),
            ]
        rules.append(("seq_len", seq_len, f"tp*cp = {self.tp}*{self.cp}", self.tp * self.cp))
        for dividend_name, dividend, divisor_name, divisor in rules:
            if dividend % divisor:
                raise ValueError(
                    f"{divisor_name} must divide {dividend_name}, and {dividend} / {divisor} "
                    "is not whole"
                )

    def sharded(self, state: str) -> bool:
        """Whether ZeRO shards `state` ("weights", "gradients" or "optimizer") over the replicas."""
        return self.zero >= {"optimizer": 1, "gradients": 2, "weights": 3}[state]
