"""Figures and examples of the pages."""
