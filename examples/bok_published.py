"""The numbers printed in Bok, Su and Altschuler (ICML 2024), Tables 1, 3, 4 and 7 to 12."""

from __future__ import annotations

# Table 7: L/(nσ) = 0.1; μ of composition, then of Theorem 4.2 for each c.
TABLE_7_CONTRACTIONS = (0.92, 0.96, 0.98, 0.99, 0.995)
TABLE_7 = {
    10: (0.316, (0.308, 0.314, 0.316, 0.316, 0.316)),
    100: (1.000, (0.490, 0.688, 0.871, 0.961, 0.990)),
    1000: (3.162, (0.490, 0.700, 0.995, 1.411, 1.984)),
}

# Table 8: σ = 8, D = 1; (t*, μ*) for each L/n and η.
TABLE_8_RATES = (0.2, 0.1, 0.05)
TABLE_8 = {
    0.25: ((80, 0.280), (160, 0.395), (320, 0.559)),
    0.5: ((40, 0.395), (80, 0.559), (160, 0.791)),
    1.0: ((20, 0.559), (40, 0.791), (80, 1.118)),
}

# Table 9: L/(bσ) = 0.2; μ of composition, then of Theorem 4.5 for each l and c.
TABLE_9_COLUMNS = tuple((batches, c) for batches in (10, 20, 40) for c in (0.98, 0.99, 0.995))
TABLE_9 = {
    5: (0.447, (0.229, 0.233, 0.235, 0.211, 0.215, 0.217, 0.202, 0.205, 0.208)),
    50: (1.414, (0.270, 0.334, 0.410, 0.216, 0.237, 0.275, 0.203, 0.208, 0.219)),
    500: (4.472, (0.270, 0.336, 0.439, 0.216, 0.237, 0.276, 0.203, 0.208, 0.219)),
}

# Tables 10, 11, 12: σ = 3, D = 1; (E*, μ*) for each l, L/b and η. Their E* come from a slip in the paper's script.
TABLES_10_TO_12_RATES = (0.04, 0.02, 0.01)
TABLES_10_TO_12 = {
    10: {
        0.25: ((31, 0.534), (62, 0.750), (123, 1.057)),
        0.5: ((17, 0.764), (33, 1.067), (65, 1.500)),
        1.0: ((10, 1.106), (20, 1.528), (40, 2.134)),
    },
    20: {
        0.25: ((16, 0.382), (31, 0.534), (62, 0.750)),
        0.5: ((9, 0.553), (17, 0.764), (33, 1.067)),
        1.0: ((5, 0.816), (10, 1.106), (20, 1.528)),
    },
    40: {
        0.25: ((8, 0.276), (16, 0.382), (31, 0.534)),
        0.5: ((5, 0.408), (9, 0.553), (17, 0.764)),
        1.0: ((3, 0.624), (5, 0.816), (10, 1.106)),
    },
}

# Tables 1, 3 and 4: MNIST logistic regression. Per epochs E, and per λ where it matters.
LOGISTIC = {"n": 60000, "batch_size": 1500, "lr": 0.05, "sigma": 0.01, "sensitivity": 10.0, "delta": 1e-5}
REGULARISATIONS = (0.002, 0.004)
TABLE_3 = {  # composition μ of cgd, CLT μ of sgd, Theorem 4.5 μ for each λ
    50: (4.71, 1.03, (0.99, 0.99)),
    100: (6.67, 1.45, (1.24, 1.22)),
    200: (9.43, 2.05, (1.59, 1.51)),
}
TABLE_4 = {  # composition ε of cgd and of sgd, prior RDP ε and Theorem 4.5 ε for each λ
    50: (30.51, 4.44, (5.82, 5.61), (4.34, 4.32)),
    100: (49.88, 6.65, (7.61, 7.00), (5.60, 5.51)),
    200: (83.83, 10.11, (9.88, 8.38), (7.58, 7.09)),
}
TABLE_1 = {50: (30.51, 5.82, 4.34), 100: (49.88, 7.61, 5.60), 200: (83.83, 9.88, 7.58)}
SMOOTHNESS = 32.504  # softmax regression on features of norm ≤ 8 and a constant: ≤ (8² + 1)/2, and λ on top
