"""Chapter 3, the fold: a model's slots cut into chunks, laid on the ranks as a V."""

from __future__ import annotations

from collections.abc import Iterator
from functools import lru_cache

from memmodel.architecture import Part
from memmodel.figures.counting import GROUPS, group
from memmodel.formats import size_text
from memmodel.ledger import layer_counts
from memmodel.mesh import Chunk
from memmodel.plan import Plan
from memmodel.scene import Figure, Group, Hidden, Line, Mark, Path, Powers, Rect, Scene, Table, Text

WIDTH, HEIGHT = 680.0, 440.0
LEFT, RIGHT = 62.0, 662.0
SLOTS, SLOT_HIGH = 34.0, 20.0  # the whole model, slot by slot
RANKS = 104.0  # the numbers of the ranks
CHUNKS, CHUNK_HIGH, CHUNK_GAP = 112.0, 64.0, 14.0
BARS, BARS_HIGH = 274.0, 108.0  # parameters on each GPU of a rank
SQUARE = 12.0

# Fill and hatch of what a state consists of; slots of the model use the same.
LOOKS = {
    "routed experts": ("weights soft", False),
    "rest of the blocks": ("weights", False),
    "embedding + head": ("weights", True),
}


def chunk_parameters(plan: Plan, chunk: Chunk) -> dict[str, int]:
    """Parameters of a chunk on one GPU, by group: experts are dealt out over EP."""
    arch = plan.architecture
    parts: list[tuple[str, int, Part]] = [
        (part.name, layers, part)
        for kind, layers in layer_counts(plan, (chunk,)).items()
        for part in arch.layer_parts[kind]
    ]
    ends = (("embedding", chunk.embedding), ("final norm", chunk.head), ("head", chunk.head))
    parts += [(name, 1, arch.end_parts[name]) for name, there in ends if there]
    found: dict[str, int] = dict.fromkeys(GROUPS, 0)
    for name, times, part in parts:
        # EP divides the number of experts, so every rank holds whole ones.
        share = plan.ep if part.split == "experts" else 1
        found[group(name)] += times * part.elements // share
    return found


def rank_parameters(plan: Plan) -> list[dict[str, int]]:
    """Parameters on each GPU of every rank, by group."""
    ranks = []
    for chunks in plan.chunks_of_rank:
        held = [chunk_parameters(plan, chunk) for chunk in chunks]
        ranks.append({name: sum(parts[name] for parts in held) for name in GROUPS})
    return ranks


def slots(plan: Plan, chunk: Chunk) -> list[str]:
    """What each slot of a chunk is: "embedding", "dense", "moe" or "head"."""
    arch = plan.architecture
    layers = range(chunk.first, chunk.stop)
    kinds = [kind for at in layers for kind in arch.kinds if arch.num_layers(kind, at, at + 1)]
    return [*["embedding"] * chunk.embedding, *kinds, *["head"] * chunk.head]


def layers_text(chunk: Chunk) -> str:
    """The layers of a chunk, with E and H for the model's ends.

    >>> layers_text(Chunk(0, 3, embedding=True)), layers_text(Chunk(61, 61, head=True))
    ('E 0–2', 'H')
    """
    first, last = chunk.first, chunk.stop - 1
    joint = "," if last - first == 1 else "–"
    words = [f"{first}{joint}{last}" if first < last else f"{first}"] if first <= last else []
    return " ".join([*["E"] * chunk.embedding, *words, *["H"] * chunk.head])


def billions(count: int) -> str:
    """A count in thousands of millions, to some three digits.

    >>> billions(4_422_131_200), billions(335_513_209_600)
    ('4.42', '336')
    """
    value = count / 1e9
    return f"{value:.{0 if value >= 100 else 1 if value >= 10 else 2}f}"


def _slot(kind: str, x: float, y: float, wide: float, high: float, faint: bool) -> Rect:
    role, hatch = {"moe": LOOKS["routed experts"], "dense": LOOKS["rest of the blocks"]}.get(
        kind, LOOKS["embedding + head"]
    )
    return Rect(x, y, wide, high, role, hatch=hatch, faint=faint)


def _model(plan: Plan, rank: int) -> Iterator[Mark]:
    """The model as one row of slots; those of the chosen rank stand out."""
    stages = {
        chunk.first + (not chunk.embedding): (at, chunk)
        for at, chunks in enumerate(plan.chunks_of_rank)
        for chunk in chunks
    }
    wide = (RIGHT - LEFT) / (plan.architecture.num_hidden_layers + 2)
    x = LEFT
    for first in sorted(stages):
        host, chunk = stages[first]
        start = x
        for kind in slots(plan, chunk):
            yield _slot(kind, x, SLOTS, wide - 1, SLOT_HIGH, host != rank)
            x += wide
        if host == rank:
            yield Line(start, SLOTS + SLOT_HIGH + 4, x - 1, SLOTS + SLOT_HIGH + 4, "text", weight=2)
    yield Text(LEFT, SLOTS + SLOT_HIGH + 20, "embedding", "muted", 12, id="slots-first")
    yield Text(RIGHT, SLOTS + SLOT_HIGH + 20, "head", "muted", 12, "end", id="slots-last")
    words = f"{plan.architecture.num_hidden_layers} layers, the first three with a dense FFN"
    yield Text(
        (LEFT + RIGHT) / 2, SLOTS + SLOT_HIGH + 20, words, "muted", 12, "middle", id="slots-layers"
    )


def _column(plan: Plan, at: int, rank: int, held: dict[str, int], most: int) -> Group:
    """A rank: its number, its chunks and its bar; a click on any of it chooses the rank."""
    pitch = (RIGHT - LEFT) / plan.pp
    x, here = LEFT + at * pitch, at == rank
    middle, wide = x + pitch / 2, pitch - 2
    marks: list[Mark] = [
        Rect(
            x,
            RANKS - 16,
            pitch,
            BARS + BARS_HIGH + 34 - RANKS + 16,
            "text",
            filled=False,
            outline="solid" if here else "",
            radius=4,
        ),
        Text(
            middle,
            RANKS,
            str(at),
            "text" if here else "muted",
            13,
            "middle",
            bold=here,
            id=f"value-rank-{at}",
        ),
    ]
    for index, chunk in enumerate(plan.chunks_of_rank[at]):
        y = CHUNKS + index * (CHUNK_HIGH + CHUNK_GAP)
        marks.append(Rect(x + 1, y, wide, CHUNK_HIGH, "axis", filled=False, outline="solid"))
        kinds = slots(plan, chunk)
        size = min(SQUARE, (wide - 8) / len(kinds) - 1)
        left = middle - (size + 1) * len(kinds) / 2
        marks += [
            _slot(kind, left + i * (size + 1), y + 8, size, SQUARE, not here)
            for i, kind in enumerate(kinds)
        ]
        amount = billions(sum(chunk_parameters(plan, chunk).values()))
        marks += [
            Text(
                middle,
                y + 38,
                layers_text(chunk),
                "text",
                12,
                "middle",
                id=f"value-layers-{index}-{at}",
            ),
            Text(middle, y + 56, amount, "muted", 12, "middle", id=f"value-chunk-{index}-{at}"),
        ]
    y, bottom = BARS + BARS_HIGH, BARS + BARS_HIGH
    for name, held_of in held.items():
        high = held_of / most * BARS_HIGH
        role, hatch = LOOKS[name]
        y -= high
        marks.append(
            Rect(
                x + 8, y, pitch - 16, high, role, hatch=hatch, faint=not here, id=f"bar-{name}-{at}"
            )
        )
    total = sum(held.values())
    marks += [
        Text(
            middle,
            bottom + 15,
            billions(total),
            "text",
            12,
            "middle",
            bold=here,
            id=f"value-parameters-{at}",
        ),
        Text(middle, bottom + 30, _gib(total), "muted", 12, "middle", id=f"value-weights-{at}"),
    ]
    return Group(
        f"rank-{at}", tuple(marks), knob="rank", value=str(at), label=f"Rank {at}", pressed=here
    )


def _gib(parameters: int) -> str:
    value = 2 * parameters / 2**30
    return f"{value:.0f}" if value >= 100 else f"{value:.2f}"


@lru_cache(maxsize=32)
def _plan(pp: int, ep: int) -> Plan:
    return Plan(pp=pp, ep=ep)


def _draw(pp: str, ep: str, rank: str) -> Scene:
    plan = _plan(int(pp), int(ep))
    here = min(int(rank), plan.pp - 1)
    ranks = rank_parameters(plan)
    totals = [sum(held.values()) for held in ranks]
    most, least = max(totals), min(totals)
    heaviest = totals.index(most)
    vocabulary = ranks[heaviest]["embedding + head"]
    words = f"Heaviest: rank {heaviest} with {most:,} parameters on each GPU"
    weights = f"{size_text(2 * most)} in bf16, {size_text(2 * vocabulary)} of it embedding and head"
    last = CHUNKS + CHUNK_HIGH / 2
    marks: list[Mark] = [
        Text(LEFT, 16, f"{words}: {size_text(2 * most)}", "text", 13, bold=True, id="title"),
        *_model(plan, here),
        *(_column(plan, at, here, held, most) for at, held in enumerate(ranks)),
        Path(
            (
                (RIGHT + 4, last),
                (RIGHT + 14, last),
                (RIGHT + 14, last + CHUNK_HIGH + CHUNK_GAP),
                (RIGHT + 4, last + CHUNK_HIGH + CHUNK_GAP),
            ),
            "axis",
            arrow=True,
            weight=1.5,
        ),
        *(
            Text(LEFT - 8, y, label, "muted", 12, "end", id=f"label-{label}")
            for label, y in (
                ("rank", RANKS),
                ("chunk 0", CHUNKS + 38),
                ("billions", CHUNKS + 56),
                ("chunk 1", CHUNKS + CHUNK_HIGH + CHUNK_GAP + 38),
                ("per GPU", BARS + 14),
                ("billions ", BARS + BARS_HIGH + 15),
                ("GiB", BARS + BARS_HIGH + 30),
            )
        ),
    ]
    x = LEFT
    for name, (role, hatch) in LOOKS.items():
        marks += [
            Rect(x, HEIGHT - 20, 12, 12, role, hatch=hatch),
            Text(x + 18, HEIGHT - 9, name, "muted", 12, id=f"legend-{name}"),
        ]
        x += 180
    ends = layers_text(plan.chunks_of_rank[here][0]), layers_text(plan.chunks_of_rank[here][1])
    status = (
        f"{words}, {weights}; the lightest holds {size_text(2 * least)}. "
        f"Rank {here} hosts {ends[0]} and {ends[1]}."
    )
    return Scene(
        width=WIDTH,
        height=HEIGHT,
        marks=tuple(marks),
        alt=f"{plan.architecture.num_hidden_layers + 2} slots of the model in {2 * plan.pp} "
        f"chunks, down and up over {plan.pp} ranks. {status}",
        status=status,
        table=Table(
            ("rank", "chunk 0", "chunk 1", "parameters on a GPU", "in bf16"),
            tuple(
                [
                    (
                        str(at),
                        layers_text(chunks[0]),
                        layers_text(chunks[1]),
                        f"{totals[at]:,}",
                        size_text(2 * totals[at]),
                    )
                    for at, chunks in enumerate(plan.chunks_of_rank)
                ]
            ),
        ),
        resolved={} if rank == str(here) else {"rank": str(here)},
    )


FIGURES = {
    "fold": Figure(
        name="fold",
        title="Fold the model onto the ranks",
        knobs=(
            Powers("pp", "Ranks (PP)", 2, 32, "8"),
            Powers("ep", "Expert parallel (EP)", 1, 256, "64"),
            Hidden("rank", "Rank", ("0", "3", "15"), "0", pattern=r"\d{1,2}"),
        ),
        draw=_draw,
        caption="DeepSeek-V3 on 2,048 GPUs. Embedding and head count as one slot each, a remainder "
        "goes to the front; E and H mark them. Chunk 0 lies on the way down, chunk 1 on the way "
        "back. Two bytes per parameter. Bars are to the scale of the heaviest rank.",
    )
}
