# Tests of core/mi against a real gdb, and of the parser against captures of one (tests/mi_captures).
add_executable(friday_mi_test ${CMAKE_CURRENT_LIST_DIR}/mi_parser_test.cc ${CMAKE_CURRENT_LIST_DIR}/mi_session_test.cc ${CMAKE_CURRENT_LIST_DIR}/mi_helper_test.cc)
target_link_libraries(friday_mi_test PRIVATE friday_mi nlohmann_json::nlohmann_json GTest::gtest GTest::gtest_main)

# Debuggees, with and without optimisation, whatever the build type and sanitizers are.
foreach(level 0 2)
  add_executable(mi_types_O${level} ${CMAKE_CURRENT_LIST_DIR}/mi_targets/types.cc)
  target_compile_options(mi_types_O${level} PRIVATE -g -O${level})
endforeach()
add_executable(mi_faults ${CMAKE_CURRENT_LIST_DIR}/mi_targets/faults.c)
target_compile_options(mi_faults PRIVATE -g -O0)
add_dependencies(friday_mi_test mi_types_O0 mi_types_O2 mi_faults)

target_compile_definitions(friday_mi_test PRIVATE
  MI_CAPTURES="${CMAKE_CURRENT_LIST_DIR}/../mi_captures"
  MI_TYPES_O0="$<TARGET_FILE:mi_types_O0>"
  MI_TYPES_O2="$<TARGET_FILE:mi_types_O2>"
  MI_FAULTS="$<TARGET_FILE:mi_faults>")
gtest_discover_tests(friday_mi_test DISCOVERY_TIMEOUT 30)
