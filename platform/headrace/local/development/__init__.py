"""`headrace dev`: its plan, its stream and its traffic."""
