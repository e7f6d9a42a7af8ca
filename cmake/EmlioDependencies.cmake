# SPDX-License-Identifier: Apache-2.0
# Every outside library, reached as emlio_dep::<name>; docs/decisions/0002-dependencies.md says why each.
find_package(PkgConfig REQUIRED)

function(emlio_pkg name module)
  pkg_check_modules(${name} REQUIRED IMPORTED_TARGET GLOBAL ${module})
  add_library(emlio_dep_${name} INTERFACE)
  target_link_libraries(emlio_dep_${name} INTERFACE PkgConfig::${name})
  add_library(emlio_dep::${name} ALIAS emlio_dep_${name})
endfunction()

function(emlio_header_only name header)
  find_path(EMLIO_${name}_INCLUDE ${header} REQUIRED)
  add_library(emlio_dep_${name} INTERFACE)
  target_include_directories(emlio_dep_${name} SYSTEM INTERFACE ${EMLIO_${name}_INCLUDE})
  add_library(emlio_dep::${name} ALIAS emlio_dep_${name})
endfunction()

emlio_pkg(zmq libzmq)
emlio_pkg(isal libisal)
emlio_pkg(xxhash libxxhash)
emlio_pkg(zlib zlib)
emlio_header_only(protozero protozero/pbf_reader.hpp)
emlio_header_only(msgpack msgpack.hpp)
target_compile_definitions(emlio_dep_msgpack INTERFACE MSGPACK_NO_BOOST)
find_package(fmt CONFIG REQUIRED)
find_package(spdlog CONFIG REQUIRED)
find_package(CLI11 CONFIG REQUIRED)
find_package(nlohmann_json CONFIG REQUIRED)
find_package(SQLite3 REQUIRED)
if(NOT TARGET SQLite3::SQLite3) # CMake before 4.3
  add_library(SQLite3::SQLite3 ALIAS SQLite::SQLite3)
endif()
