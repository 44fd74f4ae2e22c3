"""PromQL, one function or `Sum` per query; each takes the labels that select its series.

A query returns one series per (namespace, model) unless its docstring says otherwise: pods are
summed or maximised away, so that a restarted pod is not a new line. No query clamps a denominator:
without requests a ratio has no value, and one request in an hour counts as one.
"""
