"""Ratios with their spread."""

import math
import random
import statistics


def paired_ratios(values, bases):
    """values and bases: {round: [numbers]}. One ratio per round, against that round's own baseline: slow drift of the
    machine falls out. A tool or baseline that failed in a round has none there."""
    ratios = []
    for number, of_round in sorted(values.items()):
        base = bases.get(number)
        if base and of_round and statistics.mean(base) > 0:
            ratios.append(statistics.mean(of_round) / statistics.mean(base))
    return ratios


def median_interval(ratios, level=0.95, resamples=2000):
    """Bootstrap interval of the median. Fixed seed: the same numbers give the same interval."""
    if len(ratios) < 3:
        return (min(ratios), max(ratios))
    rng = random.Random(1)
    medians = sorted(statistics.median(rng.choices(ratios, k=len(ratios))) for _ in range(resamples))
    cut = int(resamples * (1 - level) / 2)
    return (medians[cut], medians[-1 - cut])


def summary(ratios):
    if not ratios:
        return None
    low, high = median_interval(ratios)
    return {
        "median": statistics.median(ratios),
        "min": min(ratios),
        "max": max(ratios),
        "low": low,
        "high": high,
        "n": len(ratios),
    }


def geometric_mean(values):
    return math.exp(sum(math.log(v) for v in values) / len(values))
