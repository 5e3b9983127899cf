"""Private text classification to start from: a bag of words, hashed, and a linear model or a small network.

    python examples/start_text.py
    python examples/start_text.py --epsilon 0.5 --records 20000

The messages are made up here; put your own reader in the place of `messages`. Two things keep it private:

- Words are hashed into a fixed number of places. A vocabulary that is counted in the private messages would betray
  words that a single person uses; a hash, or a vocabulary from public text, does not.
- Every message is scaled to norm 1 on its own, never by averages over all of them.
"""

from __future__ import annotations

import argparse
import tempfile
import zlib
from pathlib import Path

import numpy as np

import dpcalc

PLACES = 256
TOPICS = {
    "travel": "train station ticket delay hotel luggage flight platform seat border passport airport bus",
    "money": "bank invoice payment card refund account price discount loan salary receipt transfer tax",
    "health": "doctor appointment fever clinic medicine prescription nurse headache vaccine insurance pain sleep",
    "technology": "phone battery screen password update charger laptop software printer network keyboard error",
}
SMALL_TALK = "please hello thanks today tomorrow again problem question help need soon still when could already maybe"


def messages(count: int, generator: np.random.Generator) -> tuple[list[str], np.ndarray]:
    """Made-up messages: a few words about a topic, some about another one, and small talk."""
    topics, talk = [words.split() for words in TOPICS.values()], SMALL_TALK.split()
    labels = generator.integers(0, len(topics), count)
    found = []
    for label in labels:
        other = topics[generator.integers(0, len(topics))]
        words = [*generator.choice(topics[label], 4), *generator.choice(other, 2), *generator.choice(talk, 6)]
        generator.shuffle(words)
        found.append(" ".join(words))
    return found, labels


def bag_of_words(texts: list[str]) -> np.ndarray:
    """How often each place is hit by a word of the message, scaled to norm 1 message by message."""
    bags = np.zeros((len(texts), PLACES), dtype=np.float32)
    for bag, text in zip(bags, texts, strict=True):
        for word in text.lower().split():
            bag[zlib.crc32(word.encode()) % PLACES] += 1
    return bags / np.maximum(np.linalg.norm(bags, axis=1, keepdims=True), 1)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--records", type=int, default=10_000)
    parser.add_argument("--epsilon", type=float, default=1.0)
    parser.add_argument("--seed", type=int, help="reproducible noise: for experiments, not for release")
    asked = parser.parse_args()
    generator = np.random.default_rng(1)
    texts, labels = messages(asked.records + 2_000, generator)
    x = bag_of_words(texts)
    with tempfile.TemporaryDirectory() as folder:
        data = Path(folder) / "messages.npz"
        split = asked.records
        np.savez(data, x_train=x[:split], y_train=labels[:split], x_test=x[split:], y_test=labels[split:])
        common = {"data": str(data), "epsilon": asked.epsilon, "delta": 1e-5, "seed": asked.seed, "batch_size": 500}
        runs = {
            "linear, cross-entropy": {"model": "logistic", "epochs": 10, "lr": 4, "clip": 1},
            "linear, Huber": {"model": "linear", "loss": "huber", "epochs": 10, "lr": 1, "clip": 1},
            "network, clip for each layer": {
                "model": "mlp",
                "hidden": 32,
                "clipping": "per-layer",
                "epochs": 10,
                "lr": 2,
            },
        }
        print(f"{asked.records:,} messages, {len(TOPICS)} topics, {PLACES} places")
        for name, settings in runs.items():
            found = dpcalc.train(**common, **settings)
            right = found.details["test_accuracy"]
            print(f"{name:30} {100 * right:5.1f} % right, ε = {found.epsilon:.3f} at δ = 1e-5 ({found.guarantee})")


if __name__ == "__main__":
    main()
