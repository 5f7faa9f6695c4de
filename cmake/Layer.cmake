# What programs of unit tests, and parts of such, are compiled with.
function(penstock_test_options target)
  target_link_libraries(${target} PRIVATE GTest::gmock GTest::gtest)
  target_compile_definitions(${target} PRIVATE PENSTOCK_SOURCE_DIR="${PROJECT_SOURCE_DIR}")
  # Half the time of the compiler would go into optimising what tests run once.
  target_compile_options(${target} PRIVATE -O0)
  set_target_properties(${target} PROPERTIES POSITION_INDEPENDENT_CODE OFF)  # Programs and parts of them alike.
  penstock_precompile(${target} base_test)
  if(PENSTOCK_UNITY)
    set_target_properties(${target} PROPERTIES UNITY_BUILD ON UNITY_BUILD_BATCH_SIZE 8)
  endif()
endfunction()

# penstock_layer(NAME DEPS layers... LIBS libraries...)
# The library penstock_NAME from src/NAME/*.cc, and NAME_test from src/NAME/*_test.cc beside them.
function(penstock_layer name)
  cmake_parse_arguments(ARG "" "" "DEPS;LIBS" ${ARGN})
  file(GLOB sources CONFIGURE_DEPENDS ${PROJECT_SOURCE_DIR}/src/${name}/*.cc)
  set(tests ${sources})
  list(FILTER tests INCLUDE REGEX "_test\\.cc$")
  list(FILTER sources EXCLUDE REGEX "_test\\.cc$")

  add_library(penstock_${name} STATIC ${sources})
  target_include_directories(penstock_${name} PUBLIC ${PROJECT_SOURCE_DIR}/include ${PROJECT_SOURCE_DIR}/src)
  list(TRANSFORM ARG_DEPS PREPEND penstock_)
  target_link_libraries(penstock_${name} PUBLIC ${ARG_DEPS} ${ARG_LIBS})

  if(PENSTOCK_FUZZ)
    # The libraries too, not only the fuzz programs: the fuzzer is guided by what it sees executed.
    target_compile_options(penstock_${name} PRIVATE -fsanitize=fuzzer-no-link)
  endif()
  penstock_precompile(penstock_${name} penstock_base)
  if(PENSTOCK_UNITY STREQUAL ON)  # With -O2 it gains nothing.
    set_target_properties(penstock_${name} PROPERTIES UNITY_BUILD ON UNITY_BUILD_BATCH_SIZE 8)
    set(alone ${sources})
    list(FILTER alone INCLUDE REGEX "_avx2\\.cc$")  # The same names again, for other instructions.
    set_source_files_properties(${alone} PROPERTIES SKIP_UNITY_BUILD_INCLUSION ON)
  endif()

  if(PENSTOCK_TESTS AND tests)
    add_executable(${name}_test ${tests})
    penstock_test_options(${name}_test)
    target_link_libraries(${name}_test PRIVATE penstock_${name} GTest::gmock_main)
    add_dependencies(unit_tests ${name}_test)
    # To start a process for each test would take longer than the tests: parts that run side by side, of many each.
    foreach(part RANGE 3)
      add_test(NAME ${name}_test.part_${part} COMMAND ${name}_test --gtest_brief=1)
      set_tests_properties(${name}_test.part_${part} PROPERTIES TIMEOUT 900 LABELS ${name}
                           ENVIRONMENT "GTEST_TOTAL_SHARDS=4;GTEST_SHARD_INDEX=${part}")
    endforeach()
  endif()
endfunction()
