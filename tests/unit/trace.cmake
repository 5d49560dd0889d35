file(GLOB trace_tests CONFIGURE_DEPENDS ${CMAKE_CURRENT_LIST_DIR}/trace_*.cc)
add_executable(friday_trace_test ${trace_tests})
target_link_libraries(friday_trace_test PRIVATE friday_trace GTest::gtest_main)
gtest_discover_tests(friday_trace_test TEST_PREFIX unit.trace.)
