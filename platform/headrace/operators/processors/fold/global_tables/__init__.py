"""Global tables: what each call of user code reads of them."""
