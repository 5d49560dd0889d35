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

add_executable(stop_test ${CMAKE_CURRENT_LIST_DIR}/stop_support.cc ${CMAKE_CURRENT_LIST_DIR}/stop_breakpoints_test.cc)
target_compile_definitions(stop_test PRIVATE
  STOP_BREAKS="$<TARGET_FILE:stop_breaks>" STOP_STORES="$<TARGET_FILE:stop_stores>")
target_link_libraries(stop_test PRIVATE friday_stop friday_ptrace_node GTest::gtest_main)
add_dependencies(stop_test stop_breaks stop_stores)
gtest_discover_tests(stop_test PROPERTIES TIMEOUT 300)
