# The shim's parts that run outside a recorded program: what processes that share memory do to their token, step by step, and which
# instructions may take part in a loop that changes nothing.
file(GLOB shim_tests CONFIGURE_DEPENDS ${CMAKE_CURRENT_LIST_DIR}/shim_*_test.cc)
add_executable(friday_shim_test ${shim_tests})
target_link_libraries(friday_shim_test PRIVATE friday_flags PkgConfig::XXHASH Zydis::Zydis GTest::gtest_main)
target_compile_options(friday_shim_test PRIVATE -O2)
gtest_discover_tests(friday_shim_test TEST_PREFIX unit.shim. PROPERTIES TIMEOUT 120)
