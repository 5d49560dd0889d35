# friday-infer: its parts, and the program itself against small programs, which gcc compiles while the tests run. The tests are
# linked with the program's library, which is under the GPL; they are not distributed.
if(TARGET friday-infer)
  file(GLOB infer_tests CONFIGURE_DEPENDS ${CMAKE_CURRENT_LIST_DIR}/infer_*_test.cc)
  add_executable(friday_infer_test ${infer_tests} ${CMAKE_CURRENT_LIST_DIR}/infer_support.cc)
  target_link_libraries(friday_infer_test PRIVATE friday_infer_solver GTest::gtest_main)
  target_compile_definitions(friday_infer_test PRIVATE INFER_SOLVER="${CMAKE_BINARY_DIR}/lib/friday-infer")
  add_dependencies(friday_infer_test friday-infer)
  gtest_discover_tests(friday_infer_test TEST_PREFIX unit.infer. PROPERTIES TIMEOUT 120)
endif()
