"""The programs that Headrace is measured against, a folder each, and the topics that all of them read."""
