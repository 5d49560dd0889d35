file(GLOB study_tests CONFIGURE_DEPENDS ${CMAKE_CURRENT_LIST_DIR}/study_*_test.cc)
add_executable(friday_study_test ${study_tests} ${CMAKE_CURRENT_LIST_DIR}/trace_writer.cc)
target_link_libraries(friday_study_test PRIVATE friday_flags friday_study PkgConfig::XXHASH GTest::gmock GTest::gtest_main)
gtest_discover_tests(friday_study_test TEST_PREFIX unit.study.)

# Run by tests/bench/diagnose.py.
add_executable(friday_study_make ${CMAKE_CURRENT_LIST_DIR}/study_make.cc)
target_link_libraries(friday_study_make PRIVATE friday_study)
