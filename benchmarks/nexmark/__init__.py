"""Nexmark: a benchmark of streaming queries over an auction site, written in Headrace's algebra.

Source: P. Tucker, K. Tufte, V. Papadimos, D. Maier: NEXMark, a benchmark for queries over data streams (2008); the
generator and the queries follow Apache Beam's and Apache Flink's versions of it.
"""
