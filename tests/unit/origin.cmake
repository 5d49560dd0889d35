# Where values come from: what single instructions do, beside the processor.
add_executable(origin_test ${CMAKE_CURRENT_LIST_DIR}/origin_flow_test.cc)
target_link_libraries(origin_test PRIVATE friday_origin GTest::gtest_main)
gtest_discover_tests(origin_test PROPERTIES TIMEOUT 300)
