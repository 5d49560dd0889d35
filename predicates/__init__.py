"""Ready predicates over replayed systems, each with evidence in every failure. docs/predicates.md shows all of them.

Each module is a script, `friday run predicates/leader.py REC -- --term EXPR --leads EXPR`, and a class for scripts of your own:

    from predicates.leader import OneLeader
    OneLeader(friday.session, term="raft.term", leads="raft.role", leader="LEADER")

names.py maps a predicate's names to the program's expressions, timing.py decides when an inconsistent state is a violation,
and check.py has the base class of all predicates: derive from it to write your own.
"""
