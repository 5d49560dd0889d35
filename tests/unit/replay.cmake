# The parts of replay that work without a process: how stops, deaths and ends of replays are judged.
file(GLOB replay_tests CONFIGURE_DEPENDS ${CMAKE_CURRENT_LIST_DIR}/replay_*_test.cc)
add_executable(friday_replay_test ${replay_tests} ${CMAKE_CURRENT_LIST_DIR}/trace_writer.cc)
target_link_libraries(friday_replay_test PRIVATE friday_flags friday_replay GTest::gmock GTest::gtest_main)
gtest_discover_tests(friday_replay_test TEST_PREFIX unit.replay. PROPERTIES TIMEOUT 60)

# Run by tests/e2e/test_checkpoints.py.
add_executable(friday_replay_walk ${CMAKE_CURRENT_LIST_DIR}/replay_walk.cc)
target_link_libraries(friday_replay_walk PRIVATE friday_flags friday_replay)
add_executable(friday_replay_pauses ${CMAKE_CURRENT_LIST_DIR}/replay_pauses.cc)
target_link_libraries(friday_replay_pauses PRIVATE friday_flags friday_replay)
