"""One operator, one home: what the system asks of each kind of node.

`contract` has the protocol, `registry` finds the operator of a node. Each folder is one operator; it is imported when a
node of its kind is asked about. No other package branches on the kind of a node.
"""
