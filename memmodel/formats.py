"""Storage formats and precision recipes: how many bytes a tensor takes, and how sizes are printed.

Sources: DeepSeek-V3 report (arXiv 2412.19437) section 3.3 for the 1x128 tiles, E5M6 and the bf16
Adam moments; OCP Microscaling Formats v1.0 for MXFP8.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from fractions import Fraction
from functools import lru_cache

Number = int | Fraction


@dataclass(frozen=True)
class Format:
    """How one row of elements is stored: bits per element, and one scale per tile."""

    name: str
    bits: int
    tile: int = 1  # elements that share a scale
    scale_bytes: int = 0  # bytes of that scale
    fast: bool = False  # whether tensor cores take it at twice the bf16 rate

    def nbytes(self, width: int) -> int:
        """Bytes of one row of `width` elements; a width that does not fill its tiles is padded.

        >>> E4M3.nbytes(7168)      # 7168 one-byte elements, 56 fp32 scales
        7392
        >>> E4M3.nbytes(576)       # padded to five tiles of 128
        660
        >>> E5M6.nbytes(16384)     # 12 bits, packed
        24576
        """
        tiles = -(-width // self.tile)
        return -(-tiles * self.tile * self.bits // 8) + tiles * self.scale_bytes


FP32 = Format("fp32", 32)
BF16 = Format("bf16", 16)
E4M3 = Format("e4m3", 8, tile=128, scale_bytes=4, fast=True)
MXFP8 = Format("mxfp8", 8, tile=32, scale_bytes=1, fast=True)
# Storage only, for the attention output: the GEMM that reads it back runs in fp8.
E5M6 = Format("e5m6", 12, fast=True)
FORMATS = {fmt.name: fmt for fmt in (FP32, BF16, E4M3, MXFP8, E5M6)}

# The places of a block that have a format of their own: eight GEMM sites (a GEMM's format is also
# that of its saved input) and the saved input of SwiGLU, which no GEMM reads.
SITES = (
    "qkv_down",
    "q_up",
    "kv_up",
    "attn",
    "o_proj",
    "router",
    "gate_up",
    "ffn_down",
    "swiglu_in",
)


@dataclass(frozen=True)
class Recipe:
    """The format of every site.

    `twice` lists (site, format): while the site has that format, two quantised copies of its saved
    input are kept, one for each of the two GEMMs behind the site.
    """

    name: str
    formats: tuple[tuple[str, Format], ...]
    twice: tuple[tuple[str, Format], ...] = ()

    def at(self, stored: str) -> Format:
        """The format of a site, or of a tensor that is always stored as "bf16" or "fp32"."""
        return dict(self.formats).get(stored) or FORMATS[stored]

    def copies(self, stored: str) -> int:
        return 2 if (stored, self.at(stored)) in self.twice else 1


def _recipe(name: str, twice: tuple[tuple[str, Format], ...] = (), **sites: Format) -> Recipe:
    return Recipe(name, tuple((site, sites.get(site, BF16)) for site in SITES), twice)


RECIPES = {
    recipe.name: recipe
    for recipe in (
        _recipe("bf16"),
        _recipe(
            "dsv3-fp8",
            qkv_down=E4M3,
            q_up=E4M3,
            kv_up=E4M3,
            o_proj=E5M6,
            gate_up=E4M3,
            ffn_down=E4M3,
            swiglu_in=E4M3,
        ),
        _recipe(
            "all-fp8",
            qkv_down=E4M3,
            q_up=E4M3,
            kv_up=E4M3,
            o_proj=E4M3,
            gate_up=E4M3,
            ffn_down=E4M3,
            swiglu_in=E4M3,
        ),
        _recipe(
            "nv-mxfp8",
            twice=(("qkv_down", MXFP8),),
            qkv_down=MXFP8,
            q_up=MXFP8,
            kv_up=MXFP8,
            attn=MXFP8,
            gate_up=MXFP8,
            ffn_down=MXFP8,
        ),
    )
}


@lru_cache(maxsize=512)
def _overridden(name: str, overrides: tuple[tuple[str, str], ...]) -> Recipe:
    if name not in RECIPES:
        raise ValueError(f"recipe {name!r}: known are {', '.join(RECIPES)}")
    base = RECIPES[name]
    formats = dict(base.formats)
    for site, fmt in overrides:
        if site not in formats:
            raise ValueError(f"formats: no site {site!r}, known are {', '.join(SITES)}")
        if fmt not in FORMATS:
            raise ValueError(f"formats: {site} = {fmt!r}, known are {', '.join(FORMATS)}")
        if fmt == "e5m6" and site != "o_proj":
            raise ValueError(f"formats: {site} = 'e5m6', but only o_proj may be stored as e5m6")
        formats[site] = FORMATS[fmt]
    return Recipe(name, tuple(formats.items()), base.twice)


def recipe(name: str, overrides: Mapping[str, str] | None = None) -> Recipe:
    """The named recipe with the formats of single sites replaced.

    Raises ValueError for an unknown recipe, site or format, and for e5m6 anywhere but at o_proj.

    >>> recipe("dsv3-fp8", {"o_proj": "bf16"}).at("o_proj").name
    'bf16'
    """
    return _overridden(name, tuple(sorted((overrides or {}).items())))


@dataclass(frozen=True)
class StateBytes:
    """Bytes per parameter that training holds besides activations."""

    name: str
    weights: int
    gradients: int
    optimizer: int
    master: int  # of the optimizer's, the fp32 master copy of the weights
    meaning: str

    @property
    def total(self) -> int:
        return self.weights + self.gradients + self.optimizer


OPTIMIZERS = {
    state.name: state
    for state in (
        StateBytes(
            "bf16-moments",
            2,
            4,
            8,
            4,
            "bf16 weights, fp32 gradients, fp32 master + bf16 Adam moments (DeepSeek-V3)",
        ),
        StateBytes(
            "mixed", 2, 2, 12, 4, "bf16 weights and gradients, fp32 master + fp32 Adam moments"
        ),
        StateBytes(
            "mixed-fp32-grads",
            2,
            4,
            12,
            4,
            "bf16 weights, fp32 gradients, fp32 master + fp32 Adam moments",
        ),
        StateBytes(
            "mixed-both-grads",
            2,
            6,
            12,
            4,
            "bf16 weights, bf16 and fp32 gradients, fp32 master + fp32 Adam moments",
        ),
        StateBytes("pure-bf16-adam", 2, 2, 4, 0, "everything bf16, no master copy"),
        StateBytes("no-master", 2, 2, 8, 0, "bf16 weights and gradients, fp32 Adam moments"),
        StateBytes("fp32", 4, 4, 8, 0, "everything fp32, the weights are their own master"),
    )
}

# Hopper keeps both orientations of an fp8 weight, each with one fp32 scale per 128 elements:
# 2 * (1 + 4/128) = 2.0625 bytes, slightly more than bf16.
FP8_WEIGHT_BYTES = 2 * (1 + Fraction(4, 128))

_UNITS = ("B", "KiB", "MiB", "GiB", "TiB", "PiB", "EiB")


def size_text(nbytes: Number) -> str:
    """A size for people: binary units, one decimal, two from TiB on.

    >>> size_text(66_296_545_344), size_text(9_510_443_889_664), size_text(512), size_text(-2**30)
    ('61.7 GiB', '8.65 TiB', '512 B', '-1.0 GiB')
    """
    value, unit = Fraction(nbytes), 0
    # A value that would be printed as 1024.0 belongs to the next unit.
    while abs(value) >= Fraction(102395, 100) and unit < len(_UNITS) - 1:
        value, unit = value / 1024, unit + 1
    if unit == 0:
        return f"{nbytes} B" if isinstance(nbytes, int) else f"{float(nbytes):.1f} B"
    return f"{float(value):,.{2 if unit >= 4 else 1}f} {_UNITS[unit]}"


def number_text(value: Number) -> str:
    """A number with thousands separators: all its decimals where they end, else four.

    >>> number_text(66296545344), number_text(Fraction(33, 16)), number_text(Fraction(8, 3))
    ('66,296,545,344', '2.0625', '2.6667')
    """
    if value == int(value):
        return f"{int(value):,}"
    text = f"{float(value):,}"
    return text if Fraction(text.replace(",", "")) == value else f"{float(value):,.4f}"
