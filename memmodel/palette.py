"""Colours: one palette for every figure, a role and its colour on a light and on a dark ground.

The four memory categories use the Okabe-Ito hues, in the order of the ledger, set apart in
lightness too so that neighbours differ in greyscale; "soft" is the same hue for parts. Storage
formats, and the two marks of an operation, are a second family of colours.

Text roles reach a contrast of 4.5 to 1 on their ground, fills and lines 3 to 1 (tested). Text on a
full fill takes the role "ground", text on a soft fill the role "text"; both reach 4.5 to 1.
"""

from __future__ import annotations

PALETTE: dict[str, tuple[str, str]] = {
    "text": ("#1f2328", "#e6e8eb"),
    "muted": ("#57606a", "#a6adb8"),
    "ground": ("#ffffff", "#14181e"),
    "axis": ("#6e7781", "#8b949e"),
    "grid": ("#e3e6ea", "#2b313a"),
    "limit": ("#b4232a", "#ff8a80"),
    "ghost": ("#7d8590", "#8b949e"),
    "focus": ("#0a58ca", "#8ab8ff"),
    "weights": ("#00639a", "#6bbeec"),
    "weights soft": ("#489bca", "#266c98"),
    "gradients": ("#c25600", "#f06f1f"),
    "gradients soft": ("#de7930", "#9d5322"),
    "optimizer": ("#00664d", "#3fd2ac"),
    "optimizer soft": ("#31a487", "#18745d"),
    "activations": ("#9e6c00", "#cf8f10"),
    "activations soft": ("#be8b1e", "#82611e"),
    "reserve": ("#6e7781", "#9aa4af"),
    "warning": ("#b4232a", "#ff8a80"),
    "neutral": ("#57606a", "#a6adb8"),
    "good": ("#1a7f37", "#4ac26b"),
    # what happens to an operation's output
    "save": ("#46566b", "#a9b8cb"),
    "recompute": ("#7a45b8", "#c3a0f5"),
    # what a rank does in a pipeline; "soft" is the rank's first chunk
    "forward": ("#4255d3", "#808eec"),
    "forward soft": ("#7b89e0", "#4f5dbf"),
    "backward": ("#b22d70", "#e769a8"),
    "backward soft": ("#da69a1", "#a94074"),
    "input gradient": ("#953aac", "#c875dc"),
    "input gradient soft": ("#bd72d0", "#9049a2"),
    "weight gradient": ("#3e6a72", "#549faf"),
    "weight gradient soft": ("#5998a5", "#486c73"),
    # storage formats
    "fp32": ("#7a4a2b", "#d9a583"),
    "bf16": ("#4d5d78", "#9db1d1"),
    "e5m6": ("#00707a", "#4cc5cf"),
    "e4m3": ("#b0285f", "#ff86b0"),
    "mxfp8": ("#5e6b00", "#b9c64a"),
}
