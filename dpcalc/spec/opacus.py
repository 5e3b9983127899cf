"""The history of an Opacus accountant as a spec: `json.dump(privacy_engine.accountant.state_dict(), file)`."""

from __future__ import annotations

from dpcalc.spec.node import Content, Node
from dpcalc.spec.specification import Document

_POISSON = (
    "the batches were Poisson samples, as those of Opacus's own data loader are: its history looks the same with "
    "poisson_sampling=False, where no amplification is proved"
)


def read_history(root: Node) -> Document:
    """A run for every (noise multiplier, sample rate, steps) of the history, under add-remove as in Opacus.

    Noise is relative to the clip, and each record's gradient is clipped, as in `dp-sgd`.
    """
    root.only_keys(("history", "mechanism"), "the state of an Opacus accountant")
    history = root.mapping("the state of an Opacus accountant")["history"]
    steps = history.items("a list of [noise multiplier, sample rate, steps]")
    if not steps:
        history.fail("the history is empty; there is nothing to account for")
    return Document(
        entries=tuple(map(_entry, steps)),
        adjacency="add-remove",
        assumptions=(_POISSON,),
        name=root.source,
    )


def _entry(step: Node) -> Node:
    values = step.items("[noise multiplier, sample rate, steps]")
    if len(values) != 3:
        step.fail(f"expected [noise multiplier, sample rate, steps], got {len(values)} values")
    words: dict[str, Content] = {"type": "dp-sgd", "sampling": "poisson"}
    content = {key: Node(word, step.source, path=step.path, line=step.line) for key, word in words.items()}
    named = dict(zip(("noise_multiplier", "rate", "steps"), values, strict=True))
    return Node({**content, **named}, step.source, path=step.path, line=step.line)
