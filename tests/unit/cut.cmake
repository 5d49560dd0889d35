file(GLOB cut_tests CONFIGURE_DEPENDS ${CMAKE_CURRENT_LIST_DIR}/cut_*_test.cc)
add_executable(friday_cut_test ${cut_tests} ${CMAKE_CURRENT_LIST_DIR}/cut_support.cc)
target_link_libraries(friday_cut_test PRIVATE friday_flags friday_cut nlohmann_json::nlohmann_json PkgConfig::XXHASH GTest::gmock GTest::gtest_main)
gtest_discover_tests(friday_cut_test TEST_PREFIX unit.cut.)

# For tests/e2e/test_cut_record.py.
add_executable(cut_record_plan ${CMAKE_CURRENT_LIST_DIR}/cut_record_plan.cc)
target_link_libraries(cut_record_plan PRIVATE friday_flags friday_cut)
