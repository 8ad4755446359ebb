"""Time limits: a key's value leaves once it has waited so long."""
