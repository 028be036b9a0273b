"""What `memmodel frontier` prints: the policies that none beats, and where presets stand."""

from __future__ import annotations

from itertools import pairwise

from memmodel.frontiers import Frontier, Point, Verdict
from memmodel.report import Document, plain, table


def frontier_document(found: Frontier, budget: int | None) -> Document:
    """The JSON of `frontier`; with a budget also the policy of least replay that keeps to it."""
    document: Document = {
        "kind": found.block.kind,
        "policies": found.num_policies,
        "forward_flops_per_token": found.forward_flops,
        "front": [_point_document(found, point) for point in found.front],
        "hull": list(found.hull),
        "presets": {
            name: {
                "on_front": verdict.on_front,
                "on_hull": verdict.on_hull,
                "dominated": verdict.dominated,
                **_point_document(found, verdict.point),
            }
            for name, verdict in found.presets.items()
        },
    }
    if budget is not None:
        document["cheapest"] = _point_document(found, found.cheapest(budget))
    return document


def _point_document(found: Frontier, point: Point) -> Document:
    return {
        "replay": list(found.names(point)),
        "stash_bytes_per_token": point.bytes_per_token,
        "replay_flops_per_token": point.replay_flops,
        "replay_fraction": plain(found.replay_fraction(point)),
    }


def frontier_text(found: Frontier, budget: int | None) -> str:
    """The corners of the hull as steps, then the presets, then what keeps to the budget."""
    rows = [["step", "kept B/token", "replay", "replays"]]
    changes = [_words(found, found.corners[0])]
    changes += [_change(found, a, b) for a, b in pairwise(found.corners)]
    for step, (point, change) in enumerate(zip(found.corners, changes, strict=True), start=1):
        rows.append([str(step), *_costs(found, point), change])
    rows.append(["", "", "", ""])
    rows += [
        [name, *_costs(found, verdict.point), _verdict(found, verdict)]
        for name, verdict in found.presets.items()
    ]
    head = (
        f"{found.num_policies:,} policies of one {found.block.kind} block, "
        f"{len(found.front)} of them beaten by no other one, {len(found.hull)} on the hull"
    )
    parts = [head, "", table(rows, right=(1, 2))]
    if budget is not None:
        point = found.cheapest(budget)
        kept, share = _costs(found, point)
        parts += ["", f"at most {budget:,} B per token: {share} of forward, keeps {kept} B"]
        parts += [f"replays {_words(found, point)}"]
    return "\n".join(parts)


def _costs(found: Frontier, point: Point) -> tuple[str, str]:
    return f"{point.bytes_per_token:,}", f"{100 * found.replay_fraction(point):.2f} %"


def _words(found: Frontier, point: Point) -> str:
    return ", ".join(found.names(point)) or "nothing"


def _change(found: Frontier, before: Point, point: Point) -> str:
    """What a step replays on top of the one before, and what it no longer replays."""
    names = (
        ("+ ", point.replay & ~before.replay),
        ("- ", before.replay & ~point.replay),
    )
    return "; ".join(
        sign + ", ".join(op for i, op in enumerate(found.block.markable) if mask >> i & 1)
        for sign, mask in names
        if mask
    )


def _verdict(found: Frontier, verdict: Verdict) -> str:
    if verdict.on_hull:
        return "on the hull"
    if verdict.on_front:
        return "on the front"
    words = ["beaten by another policy"] if verdict.dominated else []
    if not found.allowed(verdict.point):
        words.insert(0, "replays communication")
    return ", ".join(words)
