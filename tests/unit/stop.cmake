# The stop engine, on real traced processes and against single-stepping and gdb as oracles.
add_executable(stop_breaks ${CMAKE_SOURCE_DIR}/tests/targets/stop_breaks.cc)
target_compile_options(stop_breaks PRIVATE -O1 -g -fPIE)
target_link_options(stop_breaks PRIVATE -pie)

# At low addresses, for stores with a 32-bit address.
add_executable(stop_stores ${CMAKE_SOURCE_DIR}/tests/targets/stop_stores.cc)
set_target_properties(stop_stores PROPERTIES POSITION_INDEPENDENT_CODE OFF)
target_include_directories(stop_stores PRIVATE ${CMAKE_SOURCE_DIR})
target_compile_options(stop_stores PRIVATE -O1 -g -fno-pie)
target_link_options(stop_stores PRIVATE -no-pie)

# Without optimisation: locals stand in the frame, as gdb's bytecode finds them.
add_executable(stop_values ${CMAKE_SOURCE_DIR}/tests/targets/stop_values.cc)
target_compile_options(stop_values PRIVATE -O0 -g -fPIE)
target_link_options(stop_values PRIVATE -pie)

# Calls of the C library through the procedure linkage table, bound lazily or at the start, and without this table.
foreach(binding lazy now noplt)
  add_executable(stop_effects_${binding} ${CMAKE_SOURCE_DIR}/tests/targets/stop_effects.c)
  target_compile_options(stop_effects_${binding} PRIVATE -O1 -g -fPIE -fno-builtin $<$<STREQUAL:${binding},noplt>:-fno-plt>)
  target_link_options(stop_effects_${binding} PRIVATE -pie -Wl,-z,$<IF:$<STREQUAL:${binding},lazy>,lazy,now>)
endforeach()

add_executable(stop_test ${CMAKE_CURRENT_LIST_DIR}/stop_support.cc ${CMAKE_CURRENT_LIST_DIR}/stop_breakpoints_test.cc
  ${CMAKE_CURRENT_LIST_DIR}/stop_watch_test.cc ${CMAKE_CURRENT_LIST_DIR}/stop_plans_test.cc ${CMAKE_CURRENT_LIST_DIR}/stop_data_test.cc
  ${CMAKE_CURRENT_LIST_DIR}/stop_effects_test.cc ${CMAKE_CURRENT_LIST_DIR}/stop_steps_test.cc
  ${CMAKE_CURRENT_LIST_DIR}/stop_passages_test.cc)
target_compile_definitions(stop_test PRIVATE
  STOP_BREAKS="$<TARGET_FILE:stop_breaks>" STOP_STORES="$<TARGET_FILE:stop_stores>"
  STOP_EFFECTS_LAZY="$<TARGET_FILE:stop_effects_lazy>" STOP_EFFECTS_NOW="$<TARGET_FILE:stop_effects_now>"
  STOP_EFFECTS_NOPLT="$<TARGET_FILE:stop_effects_noplt>"
  STOP_VALUES="$<TARGET_FILE:stop_values>" STOP_PLANS_SCRIPT="${CMAKE_CURRENT_LIST_DIR}/stop_plans.py"
  FRIDAY_GDB_SCRIPT="${CMAKE_SOURCE_DIR}/core/mi/gdb_friday.py:${CMAKE_SOURCE_DIR}/core/mi/gdb_evaluation.py:${CMAKE_SOURCE_DIR}/core/mi/gdb_places.py:${CMAKE_SOURCE_DIR}/core/mi/gdb_calls.py:${CMAKE_SOURCE_DIR}/core/mi/gdb_bytecode.py:${CMAKE_SOURCE_DIR}/core/mi/gdb_layouts.py:${CMAKE_SOURCE_DIR}/core/mi/gdb_containers.py")
target_link_libraries(stop_test PRIVATE friday_stop friday_rsp friday_ptrace_node GTest::gtest_main)
add_dependencies(stop_test stop_breaks stop_effects_lazy stop_effects_now stop_effects_noplt stop_stores stop_values)
gtest_discover_tests(stop_test PROPERTIES TIMEOUT 900)  # of some thousand random programs, on a busy machine
