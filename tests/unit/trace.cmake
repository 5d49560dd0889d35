file(GLOB trace_tests CONFIGURE_DEPENDS ${CMAKE_CURRENT_LIST_DIR}/trace_*_test.cc)
add_executable(friday_trace_test ${trace_tests} ${CMAKE_CURRENT_LIST_DIR}/trace_writer.cc)
target_link_libraries(friday_trace_test PRIVATE friday_trace GTest::gtest_main)
gtest_discover_tests(friday_trace_test TEST_PREFIX unit.trace.)

# Run by tests/e2e/test_logical_time.py on real recordings.
add_executable(friday_order_check ${CMAKE_CURRENT_LIST_DIR}/trace_order_check.cc)
target_link_libraries(friday_order_check PRIVATE friday_trace)

# Run by tests/e2e/test_divergence.py: alters recordings so that only a replay can tell.
add_executable(friday_trace_edit ${CMAKE_CURRENT_LIST_DIR}/trace_edit.cc)
target_link_libraries(friday_trace_edit PRIVATE friday_trace)

# Run by tests/bench/always.py.
add_executable(friday_pack_cost ${CMAKE_CURRENT_LIST_DIR}/trace_pack_cost.cc)
target_link_libraries(friday_pack_cost PRIVATE friday_trace PkgConfig::ZSTD)

# Run by tests/e2e/test_hosts.py.
add_executable(friday_skew ${CMAKE_CURRENT_LIST_DIR}/trace_skew.cc)
target_link_libraries(friday_skew PRIVATE friday_trace)
