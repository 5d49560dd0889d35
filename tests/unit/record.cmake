# The recorder's parts that work without a program: code analysis, group files, the store of file copies.
file(GLOB record_tests CONFIGURE_DEPENDS ${CMAKE_CURRENT_LIST_DIR}/record_*.cc)
add_executable(friday_record_test ${record_tests} ${CMAKE_CURRENT_LIST_DIR}/trace_writer.cc)
target_link_libraries(friday_record_test PRIVATE friday_flags friday_record PkgConfig::XXHASH GTest::gmock GTest::gtest_main)
gtest_discover_tests(friday_record_test TEST_PREFIX unit.record. PROPERTIES TIMEOUT 120)
