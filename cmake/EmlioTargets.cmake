# SPDX-License-Identifier: Apache-2.0
# emlio_module(NAME name SOURCES ... DEPS ...): the static library of one folder of src/emlio.
# Folder = namespace = target: src/emlio/plan is namespace emlio::plan is target emlio_plan.
function(emlio_module)
  cmake_parse_arguments(ARG "" "NAME" "SOURCES;DEPS;PRIVATE_DEPS" ${ARGN})
  add_library(emlio_${ARG_NAME} STATIC ${ARG_SOURCES})
  target_link_libraries(emlio_${ARG_NAME} PUBLIC emlio_flags ${ARG_DEPS} PRIVATE ${ARG_PRIVATE_DEPS})
  add_library(emlio::${ARG_NAME} ALIAS emlio_${ARG_NAME})
endfunction()

# emlio_test(NAME name SOURCES ... DEPS ... [TIMEOUT seconds]): one gtest program; every case is a ctest test.
function(emlio_test)
  if(NOT EMLIO_BUILD_TESTS)
    return()
  endif()
  cmake_parse_arguments(ARG "" "NAME;TIMEOUT" "SOURCES;DEPS" ${ARGN})
  if(NOT ARG_TIMEOUT)
    set(ARG_TIMEOUT 120)
  endif()
  add_executable(${ARG_NAME} ${ARG_SOURCES})
  target_link_libraries(${ARG_NAME} PRIVATE emlio_flags ${ARG_DEPS} GTest::gmock GTest::gtest_main)
  gtest_discover_tests(${ARG_NAME} DISCOVERY_TIMEOUT 60 PROPERTIES TIMEOUT ${ARG_TIMEOUT})
endfunction()

# emlio_fuzzer(NAME name_fuzz SOURCES ... DEPS ...): one libFuzzer target, built by the fuzz preset only;
# emlio_fuzzers is all of them.
if(EMLIO_BUILD_FUZZ)
  add_custom_target(emlio_fuzzers)
endif()
function(emlio_fuzzer)
  if(NOT EMLIO_BUILD_FUZZ)
    return()
  endif()
  cmake_parse_arguments(ARG "" "NAME" "SOURCES;DEPS" ${ARGN})
  add_executable(${ARG_NAME} ${ARG_SOURCES})
  target_link_libraries(${ARG_NAME} PRIVATE emlio_flags ${ARG_DEPS})
  target_link_options(${ARG_NAME} PRIVATE -fsanitize=fuzzer)
  add_dependencies(emlio_fuzzers ${ARG_NAME})
endfunction()
