"""Views of tables, figures of running streams, and how a stall is noticed."""
