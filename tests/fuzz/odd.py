"""Odd values of options, as a shell hands them on."""

from fuzz import mutators as m
from fuzz.making import Case, Making

SERVING = ["--host", "--token", "--peer", "--template-arg", "--queue"]


def options(c: Making) -> Case:
    """Odd values of options, which a shell hands on as they are."""
    odd = c.rng.choice([str(m.integer(c.rng)), *m.TEXTS, *m.RAW])
    model = str(c.seeds / "models" / "whole")
    state = str(c.seeds / "f32.state")
    trace = str(c.seeds / "trace")
    few = ["-n", "1"]
    words: list[list[str]] = [
        ["run", "micro", "--ids", odd, *few], ["run", model, "-p", odd, *few],
        ["run", model, "-p", "he", "--stop", odd, *few], ["run", "micro", "--ids", "1", "--temperature", odd, *few],
        ["run", "micro", "--ids", "1", "--draft", odd, *few],
        ["run", "micro", "--ids", "1", "--temperature", "1", c.rng.choice(["--top-k", "--top-p", "--seed"]), odd, *few],
        ["run", odd, "--ids", "1", *few], ["run", "micro", "--ids", "1", "-e", odd, *few],
        ["digest", "micro", "--ids", "1", c.rng.choice(["--arm", "--kv", "--steps"]), odd],
        ["diff", "micro", "-e", "numpy", "-e", odd, "--ids", "1"],
        ["diff", "micro", "-e", "numpy", "-e", "numpy", "--ids", "1,2", "--schedule", odd],
        ["trace", "micro", "--ids", "1,2", "--schedule", odd, "-o", str(c.out)],
        ["trace", "micro", "--ids", "1,2", "-o", odd if "/" not in odd else "x/y"],
        ["compare", trace, trace, "--map", odd], ["compare", trace, odd.strip("/")],
        ["explain", trace, trace, "--tap", odd],
        ["inspect", "tensor", trace, odd], ["inspect", "tensor", trace, "logits", "--pos", odd],
        ["inspect", odd, trace], ["inspect", "tensor", trace, "logits", "--first", odd],
        ["state", "import", "micro", state, "--ids", odd], ["state", "swap", state, "--fault", odd, "-o", str(c.out)],
        ["state", "export", "micro", "--ids", "1", "-o", odd if "/" not in odd else "x/y"],
        ["transcript", "produce", "micro", "--ids", "1", "-n", odd, "-o", str(c.out)], ["gate", odd],
        ["gate", "--matrix", odd],
        ["check-op", "linear", "operator:add", "--case", odd],
        ["receipts", "verify", str(c.seeds / "plain.receipt"), "--public-key", odd], ["check-op", odd, "x.py:f"],
        ["check-op", "rms_norm", odd], ["probe", "-e", odd], ["selftest", "-e", odd], [odd],
        ["serve", "micro", "--port", "0", c.rng.choice(SERVING), odd],
        ["ledger", "verify", str(c.seeds / "ledger"), "--record", odd], ["bisect", "micro", "-e", "numpy", "-e", odd],
    ]  # fmt: skip
    chosen = c.rng.choice(words)
    huge = chosen[:2] == ["transcript", "produce"] or "--steps" in chosen  # as many as are asked for
    return Case("option", ["selftest", "-e", "x"] if huge and odd.isdigit() and len(odd) > 2 else chosen)
