"""friday run right_server.py REC: did the server that committed a row have its range?

The second question: whoever asks for a row asks the server that has its range. One that is stored elsewhere is never found."""

import friday
from strays import strays

session = friday.session
stored = 0


def owner(key):
    """The server that has the range with a key, as the master knows."""
    table = session.nodes["master"].read("master->table_")
    return int(table[max(int(first) for first in table if int(first) <= key)].server)


@session.breakpoint("ranges::Server::store", nodes="server-*")
def rows_belong_to_a_range_of_this_server():
    global stored
    node = session.node
    wrong = strays(node)
    stored += len(wrong)
    assert not wrong, f"{node.name} stores {len(wrong)} rows of ranges that it has given away, such as {wrong[0]:#x}; the master's owner of that is server-{owner(wrong[0])}"


@session.at_end
def say():
    print(f"{stored} rows were stored by a server that did not have their range")
