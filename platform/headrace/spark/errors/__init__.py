"""Expressions that Spark refuses, and steps that raise."""
