# Run inside gdb at stop_place: for each expression (one a line in the file of $FRIDAY_EXPRESSIONS) prints one JSON line
# with the plan that core/mi/gdb_friday.py makes, and the bytes that gdb itself finds.
import json
import os

import gdb

for script in os.environ["FRIDAY_GDB_SCRIPT"].split(":"):
    gdb.execute("source " + script)
plan_command = Plan("-friday-plan-for-test")  # noqa: F821 (defined by the script)


def own_bytes(expression):
    value = gdb.parse_and_eval(expression)
    if value.type.strip_typedefs().code in (gdb.TYPE_CODE_REF, gdb.TYPE_CODE_RVALUE_REF):
        value = value.referenced_value()
    try:
        return value.bytes.hex()
    except AttributeError:  # gdb before 15
        pass
    code = value.type.strip_typedefs().code
    if code in (gdb.TYPE_CODE_STRUCT, gdb.TYPE_CODE_UNION, gdb.TYPE_CODE_ARRAY, gdb.TYPE_CODE_FLT):
        return gdb.selected_inferior().read_memory(int(value.address), value.type.sizeof).tobytes().hex()
    size = value.type.sizeof
    return (int(value) & ((1 << 8 * size) - 1)).to_bytes(size, "little").hex()


for expression in open(os.environ["FRIDAY_EXPRESSIONS"]).read().splitlines():
    line = {"expression": expression, "plan": json.dumps(plan_command.answer([expression]))}
    try:
        line["bytes"] = own_bytes(expression)
    except gdb.error as error:
        line["error"] = str(error)
    print("PLAN " + json.dumps(line))
