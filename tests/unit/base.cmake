file(GLOB base_tests CONFIGURE_DEPENDS ${CMAKE_CURRENT_LIST_DIR}/base_*_test.cc)
add_executable(friday_base_test ${base_tests})
target_link_libraries(friday_base_test PRIVATE friday_base GTest::gtest_main)
gtest_discover_tests(friday_base_test TEST_PREFIX unit.base.)
