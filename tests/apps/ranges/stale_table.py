"""friday run stale_table.py REC: whose view of the table was out of date when a row went to the wrong server?

The third question. A client whose table is old is no fault, as the server looks whether the rows are its own. So for each batch with stray
rows: who had their ranges when the server looked, and who when it stored them?"""

import friday
from strays import strays

session = friday.session
looked = {}  # by the server and its thread: when it found that the rows are its own, by which version of the master's table
cases = {"client": 0, "server": 0}


def version():
    return int(session.nodes["master"].read("master->version_"))


@session.breakpoint("ranges::Server::write_log", nodes="server-*")
def the_rows_have_been_looked_at():
    looked[int(session.node), session.hit.thread] = session.logical_time, version(), strays(session.node)


@session.breakpoint("ranges::Server::store", nodes="server-*")
def the_rows_are_stored():
    node = session.node
    wrong = strays(node)
    if not wrong:
        return
    when, then, wrong_then = looked[int(node), session.hit.thread]
    cases["client" if wrong_then else "server"] += 1
    passed = float(session.logical_time) - float(when)
    assert wrong_then, (f"{node.name} looked when the rows were its own, in version {then} of the table, wrote its log for {1000 * passed:.1f} ms, and stores "
                        f"{len(wrong)} of them that have been copied to another server since; the client knew version {int(node.read('version'))}")


@session.at_end
def say():
    print(f"{cases['server']} batches were out of date when the server stored them, and not when it looked; {cases['client']} when it looked")
