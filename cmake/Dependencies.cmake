# Every dependency comes from the distribution; docs/ARCHITECTURE.md says why each is here.
find_package(Threads REQUIRED)
find_package(CURL 7.85 REQUIRED)
find_package(OpenSSL 3.0 REQUIRED)
find_package(fmt 9 REQUIRED)
find_package(nlohmann_json 3.10 REQUIRED)
find_package(pugixml REQUIRED)
find_package(CLI11 REQUIRED)
find_package(JPEG REQUIRED)  # libjpeg-turbo: partial decoding is not in others.
find_package(PNG REQUIRED)
find_package(ZLIB REQUIRED)
find_package(simdjson REQUIRED)
find_package(SQLite3 3.37 REQUIRED)
if(PENSTOCK_TESTS)
  find_package(GTest REQUIRED)
endif()

# Libraries without a CMake package of their own. The static archive is preferred, so that a built `penstock`
# runs on a machine that lacks them.
function(penstock_find_library target header name)
  find_path(${target}_INCLUDE ${header} REQUIRED)
  find_library(${target}_LIBRARY NAMES lib${name}.a ${name} REQUIRED)
  add_library(${target} UNKNOWN IMPORTED GLOBAL)
  set_target_properties(${target} PROPERTIES IMPORTED_LOCATION "${${target}_LIBRARY}"
                        INTERFACE_INCLUDE_DIRECTORIES "${${target}_INCLUDE}")
endfunction()

penstock_find_library(penstock_uring liburing.h uring)
penstock_find_library(penstock_lz4 lz4.h lz4)
penstock_find_library(penstock_zstd zstd.h zstd)
penstock_find_library(penstock_xxhash xxhash.h xxhash)
penstock_find_library(penstock_isal isa-l/crc.h isal)
penstock_find_library(penstock_fuse fuse3/fuse_lowlevel.h fuse3)
set_property(TARGET penstock_fuse PROPERTY INTERFACE_LINK_LIBRARIES Threads::Threads ${CMAKE_DL_LIBS})
