"""Numbers as the table shows them."""


def micros(seconds: float) -> str:
    return f"{seconds * 1e6:.1f} µs"


def millis(seconds: float) -> str:
    return f"{seconds * 1e3:.0f} ms"


def in_seconds(seconds: float) -> str:
    return f"{seconds:.2f} s"


def rate(count: float) -> str:
    return f"{count:,.0f} /s"


def megabytes(size: float) -> str:
    return f"{size / 1e6:.0f} MB"
