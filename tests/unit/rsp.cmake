# The remote-serial-protocol endpoint, driven byte by byte and by a real gdb on real traced processes.
add_library(friday_ptrace_node STATIC ${CMAKE_CURRENT_LIST_DIR}/ptrace_node.cc)
target_link_libraries(friday_ptrace_node PUBLIC friday_base)

add_executable(rsp_target ${CMAKE_CURRENT_LIST_DIR}/rsp_targets/target.cc)
target_compile_options(rsp_target PRIVATE -O0 -g -fPIE)
target_link_options(rsp_target PRIVATE -pie)
foreach(name linked loaded)
  add_library(rsp_${name} SHARED ${CMAKE_CURRENT_LIST_DIR}/rsp_targets/library.cc)
  target_compile_definitions(rsp_${name} PRIVATE NAME=${name})
  target_compile_options(rsp_${name} PRIVATE -O0 -g)
endforeach()
target_link_libraries(rsp_target PRIVATE rsp_linked)
add_dependencies(rsp_target rsp_loaded)

add_executable(rsp_test
  ${CMAKE_CURRENT_LIST_DIR}/rsp_ptrace_node_test.cc
  ${CMAKE_CURRENT_LIST_DIR}/rsp_packet_test.cc
  ${CMAKE_CURRENT_LIST_DIR}/rsp_session_test.cc
  ${CMAKE_CURRENT_LIST_DIR}/rsp_gdb_test.cc
  ${CMAKE_CURRENT_LIST_DIR}/rsp_host.cc)
target_compile_definitions(rsp_test PRIVATE RSP_TARGET="$<TARGET_FILE:rsp_target>")
target_link_libraries(rsp_test PRIVATE friday_rsp friday_ptrace_node GTest::gmock GTest::gtest_main)
add_dependencies(rsp_test rsp_target)
gtest_discover_tests(rsp_test PROPERTIES TIMEOUT 120)
