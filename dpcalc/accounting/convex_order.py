"""The engine: laws of X = dP/dQ, composed on nested grids, until the certified interval is as narrow as asked."""
from __future__ import annotations

import math
from collections.abc import Sequence

from dpcalc.accounting.certified.compose import halved, product, single
from dpcalc.accounting.certified.discretise import discretised
from dpcalc.accounting.certified.law import Law
from dpcalc.accounting.certified.read import curve
from dpcalc.accounting.steering.hints import Hints, make_hints, spans_for, Spending
from dpcalc.accounting.steering.pilot import sketch
from dpcalc.pairs.base import Pair

def build(parts, sk, hints: Hints) -> Law:
    base = [discretised([pair], hints.step, spans_for(hints, sk.ratios[i], sk.logs[i])) for i,(pair,_) in enumerate(parts)]
    acc=None; sp=Spending(hints)
    counts=[n for _,n in parts]
    for bit in range(max(counts).bit_length()-1,-1,-1):
        if acc is not None:
            acc=sp.trimmed(product(acc,acc,tilts=hints.tilts))
        for i,n in enumerate(counts):
            if n>>bit&1:
                acc = base[i] if acc is None else product(acc,base[i],tilts=hints.tilts)
    return acc

def epsilon(parts, delta, tol):
    sk=sketch(parts)
    ways=sk.ways(delta)
    hints=make_hints(sk,ways,(1,-1),delta,0.6*tol,None)
    law=build(parts,sk,hints)
    return law, [(curve(law,d,upper=False).epsilon(delta),curve(law,d,upper=True).epsilon(delta)) for d in ('remove','add')], ways
