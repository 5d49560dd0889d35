"""Which of the rows that a server of the table is about to store do not belong to a range of its own."""


def strays(node):
    """Their keys, at a stop in a function of the server that has `rows`. Of the part of a range that is on its way to another server the
    copies have been sent: it counts as given away."""
    ranges = [(int(first), (int(range.moving_from) or int(range.last) + 1) - 1) for first, range in node.read("server->ranges_").items()]
    return [key for key in (int(row.key) for row in node.read("rows")) if not any(first <= key <= last for first, last in ranges)]
