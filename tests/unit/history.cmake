# Checkpoints of replayed groups: what each keeps and brings back, when they are made and which stay. Most tests replay a small
# program, which `friday` records for each of them.
file(GLOB history_tests CONFIGURE_DEPENDS ${CMAKE_CURRENT_LIST_DIR}/history_*.cc)
add_executable(friday_history_test ${history_tests})
target_compile_definitions(friday_history_test PRIVATE FRIDAY_COMMAND="$<TARGET_FILE:friday>" FRIDAY_LIBRARY="$<TARGET_FILE_DIR:friday-stub>"
  FRIDAY_TARGETS="${CMAKE_BINARY_DIR}/targets")
target_link_libraries(friday_history_test PRIVATE friday_flags friday_history GTest::gmock GTest::gtest_main)
add_dependencies(friday_history_test friday target_generations target_workers)
gtest_discover_tests(friday_history_test TEST_PREFIX unit.history. PROPERTIES TIMEOUT 120)
