"""The stores of groups, while user code is called."""
