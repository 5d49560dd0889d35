"""How names, tables, progress and changes are shown: shortened names of C++, and changes without moments in which a value was out of reach."""
import os
import pty
import shutil
import termios

import pytest
from fake_backend import FakeBackend  # noqa: F401  (makes friday importable)

from friday.answers import Output, brief, table, without_parameters
from friday.progress import ProgressLine
from friday.spans import Change, without_blinks


@pytest.mark.parametrize("place,shown", [
    ("f(int) at a.c:3", "f(int) at a.c:3"),
    ("std::_Rb_tree_insert_and_rebalance(bool, std::_Rb_tree_node_base*, std::_Rb_tree_node_base&)", "std::_Rb_tree_insert_and_rebalance(...)"),
    ("std::__cxx11::basic_string<char, std::char_traits<char>, std::allocator<char> >::assign() const at /usr/include/basic_string.h:1063",
     "std::__cxx11::basic_string<...>::assign() const at /usr/include/basic_string.h:1063"),
    ("a::operator<< <std::char_traits<char> >(std::basic_ostream<char>&, char const*) at a_file_with_a_name.h:12", "a::operator<< <...>(...) at a_file_with_a_name.h:12"),
    ("(anonymous namespace)::f(std::function<void ()> (*)(int), int)::{lambda(int)#1}::operator()(int) const at a_file.cc:12",
     "(anonymous namespace)::f(...)::{lambda(...)#1}::operator()(...) const at a_file.cc:12"),
    ("decltype(f<(a->b)>()) name_of_a_function_template<int>(int, long, unsigned) at a_file.cc:12", "decltype(...) name_of_a_function_template<...>(...) at a_file.cc:12"),
])
def test_long_names_are_shown_without_arguments(place, shown):
    assert brief(place) == shown


def test_a_value_out_of_reach_for_a_moment_is_no_change():
    def changes(*rows):
        return [Change(node, event, event, old, new, "") for node, event, old, new in rows]

    blinks = changes((0, 5, None, 1), (0, 5, 1, None), (1, 5, 7, None), (0, 5, None, 1), (0, 6, 1, None), (0, 6, None, 1))
    assert without_blinks(blinks) == [blinks[0], blinks[2]]
    # Gone over an event, or back as something else, is a change.
    kept = changes((0, 5, 1, None), (0, 6, None, 1), (0, 7, 1, None), (0, 7, None, 2))
    assert without_blinks(kept) == kept


@pytest.mark.parametrize("place,shown", [
    ("forward(int, Account*, long) at d.cpp:3", "forward at d.cpp:3"), ("forward at d.cpp:3", "forward at d.cpp:3"), ("0x401000", "0x401000"), ("", ""),
    ("a::operator()(int) const at a.cc:1", "a::operator() at a.cc:1"), ("(anonymous namespace)::f(void (*)(int)) at a.cc:1", "(anonymous namespace)::f at a.cc:1")])
def test_one_function_has_one_form(place, shown):
    assert without_parameters(place) == shown


def test_a_table_is_wrapped_between_words_on_a_terminal_only(monkeypatch):
    rows = [("hop", "in", "value", ""), ("1", "Lines::next at net.hpp:38, in __memmove_avx_unaligned_erms", "101", "copied from byte 9 of xmm1, from 0x55ec2fc61ebe")]
    assert table(rows, 60) == [
        "hop  in                            value",
        "1    Lines::next at net.hpp:38,    101    copied from byte 9",
        "     in                                   of xmm1, from",
        "     __memmove_avx_unaligned_erms         0x55ec2fc61ebe"]
    assert len(table(rows, 200)) == len(table(rows)) == 2
    monkeypatch.setattr(shutil, "get_terminal_size", lambda: os.terminal_size((61, 40)))
    for fold, count in ((True, 4), (False, 2)):
        lines = []
        Output(lines.append, fold=fold).table(rows)
        assert len(lines) == count, lines


def test_what_is_typed_while_a_progress_line_is_there_is_not_shown_behind_it(monkeypatch):
    monkeypatch.setenv("TERM", "xterm")
    parent, child = pty.openpty()
    monkeypatch.setattr(os, "tcgetpgrp", lambda terminal: os.getpgrp())  # this is not the test's own terminal

    def shows_typed():
        return bool(termios.tcgetattr(child)[3] & termios.ECHO)
    with open(child, "w", closefd=False) as stream:
        for typed_ahead in (True, False):
            line = ProgressLine(stream, typed_ahead=typed_ahead)
            assert shows_typed()
            line.say("3 hops")
            line.say("4 hops")
            assert shows_typed() != typed_ahead
            line.clear()
            assert shows_typed()
    os.close(parent)
    os.close(child)
