"""How names and changes are shown: shortened names of C++, and changes without moments in which a value was out of reach."""
import pytest
from fake_backend import FakeBackend  # noqa: F401  (makes friday importable)

from friday.answers import brief
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
