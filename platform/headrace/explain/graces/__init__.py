"""Other graces of a windowed node, on its log as it is."""
