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

  penstock_precompile(penstock_${name} penstock_base)

  if(PENSTOCK_TESTS AND tests)
    add_executable(${name}_test ${tests})
    target_link_libraries(${name}_test PRIVATE penstock_${name} GTest::gmock_main GTest::gmock GTest::gtest)
    target_compile_definitions(${name}_test PRIVATE PENSTOCK_SOURCE_DIR="${PROJECT_SOURCE_DIR}")
    # Half the time of the compiler would go into optimising what tests run once.
    target_compile_options(${name}_test PRIVATE -O0)
    penstock_precompile(${name}_test base_test)
    add_dependencies(unit_tests ${name}_test)
    gtest_discover_tests(${name}_test DISCOVERY_MODE PRE_TEST PROPERTIES TIMEOUT 120 LABELS ${name})
  endif()
endfunction()
