"""Change a node under its own name: compare its description with the lake, rebuild beside, swap in, or go back.

Law: after a change has been applied, a node's tables are those that a fold of the whole log by the new description gives.
A change that cannot be made so is refused, with the reason and the way out, before anything is changed.

`compare_rules` tells two descriptions apart; `plan_changes` compares a pipeline with a lake, without Spark.
"""
