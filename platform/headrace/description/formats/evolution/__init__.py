"""Whether records of one schema can be read with another, and which field is to blame."""
