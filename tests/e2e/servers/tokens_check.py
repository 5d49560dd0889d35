"""friday run tokens_check.py REC: money and tokens of the program tokens at each consistent cut, with what is on its way counted.

The accounts are a `std::map<std::string, int64_t>` and the tokens a `std::set<int>` of each node; transfers go through ZeroMQ."""

import collections

import friday
from predicates.conservation import Conservation

session = friday.session


def money(node):
    return sum(node.read("bank.balances").values())


def tokens(node):
    return len(node.read("bank.tokens"))


Conservation(session, held=money, amount="message.amount", transfer="message.id", sent_at="send_money", received_at="took_money")
Conservation(session, held=tokens, amount=lambda node: 1, transfer="message.id", sent_at="send_token", received_at="took_token")

looked = 0
shared = set()


@session.breakpoint("took_token")
def no_two_hold_the_same_token():
    global looked
    looked += 1
    holders = collections.defaultdict(list)
    for node in session.all_nodes:
        for token in node.read("bank.tokens"):
            holders[int(token)].append(node.name)
    twice = {token: names for token, names in holders.items() if len(names) > 1 and token not in shared}
    shared.update(twice)
    assert not twice, f"tokens with several holders: {twice}"


@session.at_end
def something_was_looked_at():
    print(f"{looked} tokens were taken; in sum {sum(money(node) for node in session.nodes)} and {sum(tokens(node) for node in session.nodes)} tokens")
