# Headers parsed once per build rather than in every file: more than half of what the compiler does otherwise. Not in the
# debug preset: there each file stands on its own includes, and one that is missing shows.
set(precompiled_by_all <algorithm> <array> <atomic> <charconv> <chrono> <condition_variable> <cstdint> <cstring> <deque>
    <functional> <future> <map> <memory> <mutex> <optional> <random> <set> <span> <stop_token> <string> <string_view> <thread>
    <unordered_map> <utility> <vector> <fmt/format.h>)
# What ccache needs to work with them.
if(CMAKE_CXX_COMPILER_ID STREQUAL "Clang")
  add_compile_options("SHELL:-Xclang -fno-pch-timestamp")
else()
  add_compile_options(-fpch-preprocess)
endif()

# penstock_precompile(TARGET HOLDER): TARGET uses the headers of HOLDER, a target of the same options, or holds its own.
function(penstock_precompile target holder)
  if(CMAKE_BUILD_TYPE STREQUAL "Debug")
    return()
  endif()
  if(TARGET ${holder} AND NOT ${target} STREQUAL ${holder})
    target_precompile_headers(${target} REUSE_FROM ${holder})
  elseif(${target} MATCHES "_test$")
    target_precompile_headers(${target} PRIVATE ${precompiled_by_all} <gmock/gmock.h> <gtest/gtest.h>)
  else()
    target_precompile_headers(${target} PRIVATE ${precompiled_by_all})
  endif()
endfunction()
