"""What a GPU gives: nominal, reported and usable memory and peak rates, each with its source.

*Nominal* is the size on the data sheet, the yardstick that slack is quoted against. *Reported* is
what the vendor's monitor prints. *Usable* is the capacity that PyTorch names in its out-of-memory
message: the driver and the context have taken their part before the first tensor exists.
"""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Device:
    """One kind of GPU: memory in hundredths of a GiB, so that it is exact; dense peak rates."""

    name: str
    title: str
    nominal_centigib: int
    reported_mib: int
    usable_centigib: int
    bf16_tflops: float
    fp8_tflops: float | None  # None without fp8 tensor cores
    source: str

    @property
    def nominal_bytes(self) -> int:
        """The data sheet's size, read as GiB.

        >>> device("h100").nominal_bytes == 80 * 2**30
        True
        """
        return self.nominal_centigib * 2**30 // 100

    @property
    def usable_bytes(self) -> int:
        """Bytes that a process can use, rounded down to whole bytes.

        >>> device("h100").usable_bytes
        84932978278
        """
        return self.usable_centigib * 2**30 // 100


_OOM = "usable: 'total capacity' in PyTorch out-of-memory messages"
_SMI = "reported: the monitor's memory column"

DEVICES = {
    item.name: item
    for item in (
        Device(
            "h100",
            "H100 SXM",
            8000,
            81559,
            7910,
            989.4,
            1978.9,
            f"NVIDIA H100 data sheet; {_SMI} (81559 MiB = 79.65 GiB); {_OOM}",
        ),
        Device(
            "h800",
            "H800 SXM",
            8000,
            81559,
            7910,
            989.4,
            1978.9,
            "DeepSeek-V3 report 3.1; memory and tensor cores are those of the H100 SXM",
        ),
        Device(
            "h200",
            "H200 SXM",
            14100,
            143771,
            13980,
            989.4,
            1978.9,
            f"NVIDIA H200 data sheet; {_SMI} (143771 MiB); {_OOM} (139.80 GiB)",
        ),
        Device(
            "b200",
            "B200",
            18000,
            183359,
            17835,
            2250.0,
            4500.0,
            f"NVIDIA DGX B200 data sheet (1,440 GB in 8); {_SMI} (183359 MiB); {_OOM} (178.35 GiB)",
        ),
        Device(
            "a100-80",
            "A100 SXM 80 GB",
            8000,
            81920,
            7915,
            312.0,
            None,
            f"NVIDIA A100 data sheet; {_SMI} (81920 MiB); {_OOM} (79.15 GiB)",
        ),
        Device(
            "a100-40",
            "A100 SXM 40 GB",
            4000,
            40960,
            3939,
            312.0,
            None,
            f"NVIDIA A100 data sheet; {_SMI} (40960 MiB); {_OOM} (39.39 GiB)",
        ),
        Device(
            "mi300x",
            "MI300X",
            19200,
            196592,
            19169,
            1307.4,
            2614.9,
            f"AMD Instinct MI300X data sheet; {_SMI} (196592 MiB); {_OOM} (191.69 to 191.98 "
            "GiB, the least is taken)",
        ),
    )
}


def device(name: str) -> Device:
    """The device called `name`. Raises ValueError for an unknown one."""
    if name not in DEVICES:
        raise ValueError(f"device {name!r}: known are {', '.join(DEVICES)}")
    return DEVICES[name]
