# The compilers of `friday cut`: what needs LLVM is built with FRIDAY_CUT only.
if(TARGET friday_bitcode)
  file(GLOB bitcode_tests CONFIGURE_DEPENDS ${CMAKE_CURRENT_LIST_DIR}/bitcode_*_test.cc)
  add_executable(friday_bitcode_test ${bitcode_tests})
  target_link_libraries(friday_bitcode_test PRIVATE friday_flags friday_bitcode GTest::gmock GTest::gtest_main)
  gtest_discover_tests(friday_bitcode_test TEST_PREFIX unit.bitcode.)
endif()
