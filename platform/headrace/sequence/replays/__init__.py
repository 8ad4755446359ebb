"""Records that were sent before: source chains, and the guards that judge by them.

Law: L13. With a guard each source position is taken at most once between two resets of its root. A guard is a function of
the guard before the commit and of the commit's records; its state is bounded and lies in the commit.
"""
