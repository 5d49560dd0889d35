# The part of Friday's helper that knows how containers, smart pointers and the like are laid out. A class is recognised by the name of its
# template and by the members that it has, wherever in it (in a base class, in a member) they are: no version of a library is named. What
# is known of a class is a few pieces of bytecode: each expects the address of the object on top of the stack and replaces it by a number
# or an address. gdb_containers.py makes of them what an expression asks of a container.
#
# The steps that bytecode has no instruction for are instructions of their own, `step NUMBER`; NUMBER is an index into "steps" of the plan.
# Each is an object; "of" is the container as the expression names it, for messages (core/stop/steps.h executes them):
#   {"step": "span", "of", "size"}     [end, start] -> [how many items of that size lie between]; fails unless they are a whole number
#   {"step": "sane", "of", "most"}     [count] -> [count]; fails for more than "most", which no constructed object has
#   {"step": "bounds", "of", "end"}    [index, count] -> [index]; fails unless 0 <= index < count, or index == count if "end"
#   {"step": "require", "of": TEXT}    [value] -> []; fails with this text if the value is 0
#   {"step": "length", "of"}           [address] -> [the length of the NUL-terminated text there]
#   {"step": "compare", "of", "only_equal", "left": HEX, "right": HEX}   [address, length, address, length] -> [a number below, of or above 0];
#                                      without the two values of a side that is given as a literal
#   {"step": "find", "of", "left": HEX, "found": {...}}   [object, key] -> [address of the first item with the key, or 0]; the key is a number, or
#                                      address and length of a text, or the literal. "found": see PlanStep::Found; with "counts": their number
TEMPLATE = re.compile(r"(?:std|boost|absl|__gnu_cxx)::(?:\w+::)*(\w+)<")
MOST_ITEMS = 1 << 40  # in a container; a larger number is that of memory which holds none


class UnknownLayout(Unplannable):
    """Raised for a class with the name of a known one and other members."""

    def __init__(self, record):
        super().__init__("%s is laid out in a way that is not known here" % record)


def template_of(record):
    """The name of the template of which a class of a library is an instance, without namespaces ("vector"); None for other classes."""
    name = record.name or ""
    found = TEMPLATE.match(name)
    if not found or not name.endswith(">"):
        return None
    depth = 0
    for at, letter in enumerate(name):
        depth += {"<": 1, ">": -1}.get(letter, 0)
        if letter == ">" and depth == 0 and at + 1 < len(name) and not name.startswith("operator", at - 8):
            return None  # a class within an instance of the template
    return found[1]


def members_within(record, *names):
    """(offset in bytes, type) of the outermost member with one of these names, in the class, its bases and its members; None if there is none."""
    level = [(0, record)]
    while level:
        deeper = []
        for offset, each in level:
            for field in each.fields():
                if getattr(field, "bitpos", None) is None:
                    continue
                at = offset + field.bitpos // 8
                if field.name in names and not field.is_base_class:
                    return at, bare(field.type)
                if bare(field.type).code in RECORDS:
                    deeper.append((at, bare(field.type)))
        level = deeper
    return None


def part(record, *names):
    """As members_within(), for a member that a class of a known layout has. Raises UnknownLayout if there is none."""
    found = members_within(record, *names)
    if found is None:
        raise UnknownLayout(record)
    return found


def argument(record, number):
    """A template argument; None if there are fewer."""
    try:
        return record.template_argument(number)
    except (RuntimeError, gdb.error):
        return None


def at(offset):
    return [("const32", offset), ("add", 0)] if offset else []


def word(offset):
    """[address] -> [the eight bytes at this offset]"""
    return at(offset) + [("ref64", 0)]


def divided(size):
    return [] if size == 1 else [("const32", size), ("div_unsigned", 0)]


def times(size):
    return [] if size == 1 else [("const32", size), ("mul", 0)]


def branch(test, yes, no):
    """Code that goes on with `yes` if the test yields another value than 0, else with `no`."""
    first = Code([]).plus(*test)
    yes, no = Code([]).plus(*yes), Code([]).plus(*no)
    to_yes = first.size() + 3 + no.size() + 3
    return first.plus(("if_goto", to_yes), no, ("goto", to_yes + yes.size())).plus(yes)


class Sequence:
    """Items that are reached by an index. In bytecode: `count(steps, of)`: [object] -> [their number]; `locate`: [object, index] -> [the
    address of the item], or for `bit` its value; `data`: [object] -> [the address of the first item], None if they do not lie side by side."""

    def __init__(self, item, count, locate, data=None, capacity=None, text=False, bit=False):
        self.item, self.count, self.locate, self.data, self.capacity, self.text, self.bit = item, count, locate, data, capacity, text, bit


def side_by_side(item, data, count, **more):
    return Sequence(item, count, [("swap", 0), *data, ("swap", 0), *times(item.sizeof), ("add", 0)], data, **more)


def said(offset):
    """The number of items, as a container says it."""
    return lambda steps, of: [*word(offset), steps.add(step="sane", of=of, most=MOST_ITEMS)]


def distance(start, last, size):
    return lambda steps, of: [("dup", 0), *word(last), ("swap", 0), *word(start), steps.add(step="span", of=of, size=size)]


def sequence_of(record, template):
    """The layout of a class whose items are reached by an index; None for others."""
    if template == "deque":
        return deque_of(record)
    if template == "basic_string" and members_within(record, "__s") and members_within(record, "__l"):
        return short_string_of(record)
    if template == "InlinedVector":
        return inlined_vector_of(record)
    if template == "FixedArray":
        data, length = part(record, "data_"), part(part(record, "size_alloc_")[1], "value")
        return side_by_side(pointed(data[1], record), word(data[0]), said(eight_bytes(part(record, "size_alloc_")[0] + length[0], length[1], record)))
    if template == "static_vector":
        item, length = argument(record, 0), part(record, "m_size")
        return side_by_side(bare(item), at(part(record, "storage")[0]), said(eight_bytes(*length, record)))
    if template == "vector":
        bits = bits_of(record)
        if bits:
            return bits
    if template not in SEQUENCES:
        return None
    if template == "array" and argument(record, 1) == 0:
        return Sequence(argument(record, 0), lambda steps, of: [("pop", 0), ("const8", 0)], [("pop", 0)])  # its member is no item
    first = members_within(record, "_M_start", "__begin_", "m_start", "_M_p", "_M_str", "_M_array", "_M_ptr", "_M_data", "__data_", "__data", "_M_elems", "__elems_", "elems")
    if first is None:
        raise UnknownLayout(record)
    offset, type = first
    if type.code == gdb.TYPE_CODE_ARRAY:
        low, high = type.range()
        if template == "array" and argument(record, 1) != high - low + 1:
            raise UnknownLayout(record)
        return side_by_side(type.target(), at(offset), lambda steps, of: [("pop", 0), ("const32", high - low + 1)])
    if type.code != gdb.TYPE_CODE_PTR or not type.target().sizeof:
        raise UnknownLayout(record)
    item = type.target().unqualified() if template != "span" else type.target()
    lengths = ("m_size",) if template == "vector" else ("_M_string_length", "_M_len", "__size_", "__size", "m_size", "_M_extent_value", "_M_size")
    last, length = members_within(record, "_M_finish", "__end_"), members_within(record, *lengths)
    if last is not None and last[1].code == gdb.TYPE_CODE_PTR:
        end = members_within(record, "_M_end_of_storage", "__end_cap_", "__cap_")
        capacity = distance(offset, end[0], item.sizeof) if end and end[1].code == gdb.TYPE_CODE_PTR else None
        return side_by_side(item, word(offset), distance(offset, last[0], item.sizeof), capacity=capacity)
    if length is not None and length[1].sizeof == 8:
        return side_by_side(item, word(offset), said(length[0]), text=template.startswith("basic_string"))
    extent = argument(record, 1) if template == "span" else None
    if not isinstance(extent, gdb.Value) or int(extent) & MASK == MASK:
        raise UnknownLayout(record)  # also a span whose length is in a member
    return side_by_side(item, word(offset), lambda steps, of: [("pop", 0), ("const64", int(extent))])


def short_string_of(record):
    """A string of libc++: a short one is in the object, with twice its length in the first byte; that of a long one is odd. Since version
    15 the two parts of that byte are bit fields."""
    (short, _), (long_, _) = (members_within(record, name) for name in ("__s", "__l"))
    inner, outer = (bare(members_within(record, name)[1]) for name in ("__s", "__l"))
    data, pointer, length = part(inner, "__data_"), part(outer, "__data_"), part(outer, "__size_")
    flag = part(inner, "__is_long_", "__size_")
    if (pointer[1].code != gdb.TYPE_CODE_PTR or flag[0] != 0 or short != 0 or long_ != 0 or data[0] != pointer[1].target().sizeof
            or outer.fields()[0].bitpos != 0):
        raise UnknownLayout(record)  # such as the other of libc++'s two layouts
    test = [("dup", 0), ("ref8", 0), ("const8", 1), ("bit_and", 0)]
    address = [branch(test, word(pointer[0]), at(data[0]))]
    size = branch(test, word(length[0]), [("ref8", 0), ("const8", 1), ("rsh_unsigned", 0)])
    found = side_by_side(pointer[1].target(), address, lambda steps, of: [size, steps.add(step="sane", of=of, most=MOST_ITEMS)], text=True)
    found.short = {"data": pointer[0], "length": length[0], "long_bit": 1, "short_data": data[0], "size": record.sizeof}
    return found


def eight_bytes(offset, type, record):
    """The offset of a number of eight bytes. Raises UnknownLayout if it is another one."""
    if type.code not in INTEGERS or type.sizeof != 8:
        raise UnknownLayout(record)
    return offset


def pointed(type, record):
    if type.code != gdb.TYPE_CODE_PTR or not type.target().sizeof:
        raise UnknownLayout(record)
    return bare(type.target())


def inlined_vector_of(record):
    """One of Abseil: as long as its items are few, they are in the object. A word has twice their number, and 1 more if they are elsewhere."""
    metadata, data = part(record, "metadata_"), part(record, "data_")
    size, pointer, inside = part(metadata[1], "value"), part(data[1], "allocated_data"), part(data[1], "inlined_data")
    place = eight_bytes(metadata[0] + size[0], size[1], record)
    test = [("dup", 0), *word(place), ("const8", 1), ("bit_and", 0)]
    address = [branch(test, word(data[0] + pointer[0]), at(data[0] + inside[0]))]
    return side_by_side(pointed(pointer[1], record), address,
                        lambda steps, of: [*word(place), ("const8", 1), ("rsh_unsigned", 0), steps.add(step="sane", of=of, most=MOST_ITEMS)])


def bits_of(record):
    """A vector<bool>: its items are bits. None for other vectors."""
    held = argument(record, 0)
    if not isinstance(held, gdb.Type) or bare(held).code != gdb.TYPE_CODE_BOOL:
        return None
    start, finish = members_within(record, "_M_start"), members_within(record, "_M_finish")
    bool_ = gdb.lookup_type("bool")
    if start and finish and start[1].code in RECORDS:
        pointer, offset = (part(start[1], name)[0] for name in ("_M_p", "_M_offset"))
        first, last = start[0], finish[0]
        begin = [*at(first + offset), ("ref32", 0)]

        def count(steps, of):
            return [("dup", 0), *word(last + pointer), ("pick", 1), *word(first + pointer), ("sub", 0), ("const8", 8), ("mul", 0),
                    ("pick", 1), *at(last + offset), ("ref32", 0), ("add", 0), ("swap", 0), *begin, ("sub", 0),
                    steps.add(step="sane", of=of, most=MOST_ITEMS)]
        data = word(first + pointer)
        shifted = [("pick", 1), *begin, ("add", 0)]
    elif members_within(record, "__begin_") and members_within(record, "__size_") and not members_within(record, "__end_"):
        count, data, shifted = said(members_within(record, "__size_")[0]), word(members_within(record, "__begin_")[0]), []
    else:
        return None
    locate = [*shifted, ("dup", 0), ("const8", 8), ("div_unsigned", 0), ("rot", 0), ("swap", 0), *data, ("rot", 0), ("rot", 0), ("add", 0),
              ("ref8", 0), ("swap", 0), ("const8", 7), ("bit_and", 0), ("rsh_unsigned", 0), ("const8", 1), ("bit_and", 0)]
    return Sequence(bool_, count, locate, bit=True)


def deque_of(record):
    """A deque: blocks of items, whose addresses are in a table."""
    start, finish = members_within(record, "_M_start"), members_within(record, "_M_finish")
    if start and finish and start[1].code in RECORDS:
        offsets = {name: part(start[1], name) for name in ("_M_cur", "_M_first", "_M_last", "_M_node")}
        item = offsets["_M_cur"][1].target()
        cur, first, last, node = (offsets[name][0] for name in offsets)
        size, s, f = item.sizeof, start[0], finish[0]
        block = max(1, 512 // size)

        def count(steps, of):
            return [("dup", 0), *word(f + node), ("pick", 1), *word(s + node), ("sub", 0), ("const8", 8), ("div_signed", 0), ("const8", 1), ("sub", 0),
                    *times(block), ("pick", 1), *word(f + cur), ("pick", 2), *word(f + first), ("sub", 0), *divided(size), ("add", 0),
                    ("pick", 1), *word(s + last), ("pick", 2), *word(s + cur), ("sub", 0), *divided(size), ("add", 0), ("swap", 0), ("pop", 0),
                    steps.add(step="sane", of=of, most=MOST_ITEMS)]
        shift, table = [("pick", 1), *word(s + cur), ("pick", 2), *word(s + first), ("sub", 0), *divided(size), ("add", 0)], word(s + node)
    else:
        blocks, begin, length = (members_within(record, name) for name in ("__map_", "__start_", "__size_"))
        if not (blocks and begin and length):
            raise UnknownLayout(record)
        inner = part(blocks[1], "__begin_")
        item = inner[1].target().target()
        size, count = item.sizeof, said(length[0])
        block = 4096 // size if size < 256 else 16
        shift, table = [("pick", 1), *word(begin[0]), ("add", 0)], word(blocks[0] + inner[0])
    locate = [*shift, ("dup", 0), *divided(block), ("const8", 8), ("mul", 0), ("rot", 0), ("swap", 0), *table, ("rot", 0), ("rot", 0), ("add", 0),
              ("ref64", 0), ("swap", 0), ("const32", block), ("rem_unsigned", 0), *times(size), ("add", 0)]
    return Sequence(item, count, locate)


SEQUENCES = ("vector", "basic_string", "basic_string_view", "array", "span", "initializer_list", "valarray", "small_vector", "string_view")


# ---- classes that hold one object or a few ----

SMART = ("unique_ptr", "shared_ptr", "weak_ptr", "intrusive_ptr", "scoped_ptr", "__normal_iterator", "__wrap_iter", "reference_wrapper")


def pointer_of(record, template):
    """(offset, pointer type) of the pointer in a smart pointer, or in an iterator over items that lie side by side; None for others."""
    if template == "_Deque_iterator":
        return members_within(record, "_M_cur")
    if template not in SMART:
        return None
    if template == "unique_ptr" and members_within(record, "_M_t"):
        found = next((head for head in heads_of(record) if head[0] == 0), None)  # a tuple of the pointer and the deleter
        found = found and found[1:]
    else:
        found = members_within(record, "_M_ptr", "__ptr_", "px", "_M_current", "__i_", "__i", "_M_data", "__f_")
        found = found and first_within(*found)
    return found if found and found[1].code == gdb.TYPE_CODE_PTR and found[1].target().sizeof else None


def heads_of(record, offset=0):
    """(index, offset, type) of the values of a tuple of libstdc++ or libc++, in no order. An empty class has no place of its own."""
    for field in record.fields():
        if getattr(field, "bitpos", None) is None or bare(field.type).code not in RECORDS:
            continue
        inner, place = bare(field.type), offset + field.bitpos // 8
        template = template_of(inner)
        if template in ("_Head_base", "__tuple_leaf"):
            for held in inner.fields():
                if getattr(held, "bitpos", None) is not None and held.name in ("_M_head_impl", "__value_"):
                    yield int(inner.template_argument(0)), place + held.bitpos // 8, bare(held.type)
        else:
            yield from heads_of(inner, place)


def values_of(record, template):
    """(offset, type) of each value of a pair or a tuple, in order; None for others."""
    if template == "pair":
        return [part(record, name) for name in ("first", "second")]
    if template != "tuple":
        return None
    heads = sorted(heads_of(record), key=lambda head: head[0])
    if [head[0] for head in heads] != list(range(len(heads))) or isinstance(argument(record, len(heads)), gdb.Type):
        raise UnknownLayout(record)
    return [head[1:] for head in heads]


def optional_of(record, template):
    """(offset of the flag, (offset, type) of the value) of an optional; None for others."""
    if template != "optional":
        return None
    flag, value = members_within(record, "_M_engaged", "__engaged_", "m_initialized"), members_within(record, "_M_value", "__val_")
    if flag is None or flag[1].sizeof != 1:
        return None
    if value is None:
        storage, item = members_within(record, "m_storage"), argument(record, 0)
        value = storage and item and (storage[0], item)
    return value and (flag[0], value)


def alternatives_of(record, template):
    """((offset, size) of the index, [(offset, type) of each alternative]) of a variant; None for others."""
    if template != "variant":
        return None
    index = members_within(record, "_M_index", "__index")
    union = members_within(record, "_M_u", "__data")
    if not index or not union:
        raise UnknownLayout(record)
    found, (place, type) = [], union
    number = 0
    while isinstance(argument(record, number), gdb.Type):
        first = part(type, "_M_first", "__head")
        found.append((place + first[0], bare(argument(record, number))))
        number += 1
        if isinstance(argument(record, number), gdb.Type):
            rest = part(type, "_M_rest", "__tail")
            place, type = place + rest[0], rest[1]
    return (index[0], index[1].sizeof), found


def atomic_of(record, template):
    """(offset, type) of the value of an atomic, or of the number of a duration; None for others."""
    if template == "atomic":
        found = members_within(record, "_M_i", "_M_p", "_M_fp", "__a_value")
        if not found or found[0] != 0:
            raise UnknownLayout(record)  # in an atomic<shared_ptr<T>> it is a part of something else
        return found
    return None


# ---- classes whose items are in nodes ----

class Linked:
    """Items in nodes of their own. `first` and `last`: [object] -> [the node of the first, the last item]; `count` as in Sequence; each may be None.
    `shift`: the offset of the item in a node. `end`: [object] -> [what stands for the node behind the last]. `search`: the description of a step
    that finds a key, without the key."""

    def __init__(self, item, shift, first, count=None, last=None, end=None, search=None, key=None, repeated=False, mapped=None):
        self.item, self.shift, self.first, self.count, self.last, self.end = item, shift, first, count, last, end
        self.search, self.key, self.repeated, self.mapped = search, key, repeated, mapped


KEYED = {name: (kind, name.endswith("map"), "multi" in name) for kind, names in (
    ("tree", ("set", "multiset", "map", "multimap")), ("hash", ("unordered_set", "unordered_multiset", "unordered_map", "unordered_multimap"))) for name in names}
# Of these only the number of items is had without a call: sorted arrays of Boost, and tables of Abseil, whose hash is its own.
COUNTED = {**dict.fromkeys(("flat_map", "flat_multimap", "flat_set", "flat_multiset"), ("m_size",)),
           **dict.fromkeys(("flat_hash_map", "flat_hash_set", "node_hash_map", "node_hash_set"), ("size_",))}
ALLOCATORS = {"set": 2, "multiset": 2, "map": 3, "multimap": 3, "unordered_set": 3, "unordered_multiset": 3, "unordered_map": 4, "unordered_multimap": 4,
              "list": 1, "forward_list": 1, "vector": 1, "deque": 1, "basic_string": 2}


def allocated(record, template):
    """The type of the items of a container, from the allocator among its template arguments, whatever allocator it is; None for other classes."""
    number = ALLOCATORS.get(template)
    if number is None:
        return None
    allocator = argument(record, number)
    item = argument(bare(allocator), 0) if isinstance(allocator, gdb.Type) else None
    if isinstance(item, gdb.Type) and item.code != gdb.TYPE_CODE_VOID:
        return item
    key = argument(record, 0)
    if template not in KEYED or not KEYED[template][1]:
        return key
    try:
        return gdb.lookup_type("std::pair<%s const, %s>" % (key, argument(record, 1)))
    except gdb.error:
        return None


def item_of(record, template):
    """The type of the items of a container, or of the value of an optional of Boost; None for other classes."""
    if (record.name or "").startswith(("std::", "__gnu_cxx::")):
        return allocated(record, template)
    if template in ("optional", "array", "static_vector", "InlinedVector", "FixedArray"):
        return argument(record, 0)
    first = members_within(record, "m_start", "slots_")
    if first is None or first[1].code != gdb.TYPE_CODE_PTR:
        return None
    item = bare(first[1].target())
    if item.code == gdb.TYPE_CODE_UNION:  # a slot of a map
        value = members_within(item, "value")
        return value and value[1]
    return bare(item.target()) if template.startswith("node_") and item.code == gdb.TYPE_CODE_PTR else item


# The types of the nodes of libstdc++ and libc++, by the kind of container.
NODES = {"list": ("std::_List_node<%s>", "std::__1::__list_node<%s, void*>"), "forward_list": ("std::_Fwd_list_node<%s>", "std::__1::__forward_list_node<%s, void*>"),
         "tree": ("std::_Rb_tree_node<%s>", "std::__1::__tree_node<%s, void*>"),
         "hash": ("std::__detail::_Hash_node<%s, false>", "std::__detail::_Hash_node<%s, true>", "std::__1::__hash_node<%s, void*>")}
PAIRS_OF_LIBCXX = {"tree": "std::__1::__value_type<%s, %s>", "hash": "std::__1::__hash_value_type<%s, %s>"}  # what its nodes hold instead of pairs


def in_node(kind, item, links, held=None):
    """The offset of an item in its node, whose first `links` bytes are links: as the debug information of the node has it. Where there is none
    the item is behind the links, aligned as gdb says, which does not know the alignas of members (Clang) and packed classes. held: the
    name of what the node holds, if it is not the item's."""
    for name in NODES[kind]:
        try:
            node = gdb.lookup_type(name % (held or bare(item)))
        except gdb.error:
            continue
        found = members_within(bare(node), "_M_storage", "__value_")
        if found:
            return found[0]
    to = max(1, item.alignof)
    return (links + to - 1) // to * to


def shift_of(record, template):
    """The offset of the items of a container in their nodes; None for a container of another kind."""
    kind = KEYED[template][0] if template in KEYED else template
    item = allocated(record, template) if kind in NODES and template not in COUNTED else None
    if item is None:
        return None
    if members_within(record, "_M_node", "_M_head", "_M_header", "_M_before_begin"):
        return in_node(kind, item, {"list": 16, "forward_list": 8, "tree": 32, "hash": 8}[kind])
    # In libc++ a node of a tree has left, right, parent and a colour of one byte, behind which the item may use what would be padding.
    pair = kind in PAIRS_OF_LIBCXX and KEYED[template][1]
    held = PAIRS_OF_LIBCXX[kind] % (argument(record, 0), argument(record, 1)) if pair else None
    return in_node(kind, item, {"list": 16, "forward_list": 8, "tree": 25, "hash": 16}[kind], held)


def linked_of(record, template):
    """The layout of a container whose items are in nodes; None for others."""
    if template in COUNTED:
        number = part(record, *COUNTED[template])
        return Linked(bare(argument(record, 0)), 0, None, said(eight_bytes(*number, record)))
    if template not in KEYED and template not in ("list", "forward_list"):
        return None
    item = allocated(record, template)
    if item is None:
        return None
    if template in KEYED:
        return (tree_of if KEYED[template][0] == "tree" else hash_table_of)(record, template, item)
    if template == "list":
        head, size = members_within(record, "_M_node", "__end_"), members_within(record, "_M_size", "__size_", "__size_alloc_")
        if not head or not size:
            return None
        before, after = part(head[1], "_M_prev", "__prev_"), part(head[1], "_M_next", "__next_")
        return Linked(item, shift_of(record, template), word(head[0] + after[0]), said(size[0]), word(head[0] + before[0]), at(head[0]))
    head = members_within(record, "_M_head", "__before_begin_")
    return head and Linked(item, shift_of(record, template), word(head[0]), end=[("pop", 0), ("const8", 0)])


def tree_of(record, template, item):
    header, number = members_within(record, "_M_header"), members_within(record, "_M_node_count", "__size_", "__pair3_")
    if header and number:
        root, left, right = (header[0] + part(header[1], name)[0] for name in ("_M_parent", "_M_left", "_M_right"))
        within = {"left": left - header[0], "right": right - header[0]}
        found = Linked(item, shift_of(record, template), word(left), said(number[0]), word(right), at(header[0]))
    else:
        begin, end = members_within(record, "__begin_node_"), members_within(record, "__end_node_", "__pair1_")
        if not begin or not end or not number:
            return None
        root, within = end[0], {"left": 0, "right": 8}
        found = Linked(item, shift_of(record, template), word(begin[0]), said(number[0]), end=at(end[0]))
    return keyed(found, record, template, dict(within, first=root))


def hash_table_of(record, template, item):
    first, number = members_within(record, "_M_before_begin", "__first_node_", "__p1_"), members_within(record, "_M_element_count", "__size_", "__p2_")
    buckets, count = members_within(record, "_M_buckets", "__ptr_"), members_within(record, "_M_bucket_count")
    if not first or not number:
        return None
    libcxx = members_within(record, "__bucket_list_") is not None
    if libcxx:
        list_ = members_within(record, "__bucket_list_")
        inner, size = part(list_[1], "__ptr_"), part(list_[1], "__size_", "__data_")
        buckets, count = (first_within(list_[0] + each[0], each[1]) for each in (inner, size))
    found = Linked(item, shift_of(record, template), word(first[0]), said(number[0]), end=[("pop", 0), ("const8", 0)])
    entry = {"first": first[0]}
    hash_ = argument(record, 2 if KEYED[template][1] else 1)
    key = bare(argument(record, 0))
    hashed = key.code in INTEGERS and not (libcxx and key.code == gdb.TYPE_CODE_PTR)  # libc++ mixes the bits of addresses
    if buckets and count and buckets[1].code == gdb.TYPE_CODE_PTR and count[1].sizeof == 8 and hashed and hash_ and template_of(bare(hash_)) == "hash":
        entry.update(by_value=True, buckets=buckets[0], bucket_count=count[0])
    return keyed(found, record, template, entry)


def first_within(offset, type):
    """(offset, type) of the first value of a pair of libc++ that takes no place for an empty class; what is no pair stays as it is."""
    value = members_within(type, "__value_") if type.code in RECORDS else None
    return (offset + value[0], value[1]) if value else (offset, type)


def keyed(layout, record, template, entry):
    """The layout with what is known of its keys: only the order and equality of the library itself can be followed without a call."""
    kind, pairs, layout.repeated = KEYED[template]
    layout.key = bare(argument(record, 0))
    order = bare(argument(record, 1 + pairs + (kind == "hash")))
    name = template_of(order)
    layout.mapped = None
    if pairs:
        second = members_within(bare(layout.item), "second")
        layout.mapped = second and (second[0], argument(record, 1))
    if name not in (("less", "greater") if kind == "tree" else ("equal_to",)):
        layout.search = "it orders its keys by %s" % order if kind == "tree" else "it compares its keys by %s" % order
        return layout
    layout.search = dict(entry, **{"in": kind}, item=layout.shift, descending=name == "greater", repeated=layout.repeated)
    return layout


ITERATORS = {"_Rb_tree": ("_M_node", "tree", 32), "_List": ("_M_node", "list", 16), "_Fwd_list": ("_M_node", "forward_list", 8), "_Node": ("_M_cur", "hash", 8)}


def node_of(record, template):
    """(offset of the node's address, offset of the item in the node, type of the item) of an iterator over nodes; None for others."""
    named = re.fullmatch("(.*?)(?:_const)?_iterator", template or "")
    if not named or named[1] not in ITERATORS:
        return None
    name, kind, links = ITERATORS[named[1]]
    held, item = members_within(record, name), argument(record, 0)
    return held and isinstance(item, gdb.Type) and (held[0], in_node(kind, item, links), item) or None
